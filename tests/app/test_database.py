from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from reassembly.app import database as db
from reassembly.errors import InputError


def _columns(path: Path) -> dict[str, set[tuple[str, bool, bool]]]:
    found = inspect(create_engine(f"sqlite:///{path.as_posix()}"))
    return {
        table: {
            (column["name"], bool(column["nullable"]), bool(column["primary_key"]))
            for column in found.get_columns(table)
        }
        for table in found.get_table_names()
    }


def test_migrations_end_at_the_tables_that_the_program_uses(tmp_path: Path) -> None:
    db.migrate(tmp_path / "migrated.sqlite")
    created = tmp_path / "created.sqlite"
    db.Base.metadata.create_all(create_engine(f"sqlite:///{created.as_posix()}"))
    migrated, wanted = _columns(tmp_path / "migrated.sqlite"), _columns(created)
    assert migrated.keys() == wanted.keys()
    for table, columns in wanted.items():
        # SQLite lets a text key be null unless told otherwise; the program never writes one.
        strip = {(name, nullable and not key, key) for name, nullable, key in migrated[table]}
        assert strip == columns, table


def test_an_old_workspace_is_brought_up_to_date_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as old:
        for statement in db.MIGRATIONS[0]:
            old.execute(statement)
        old.execute("INSERT INTO projects VALUES ('a', 'Kept', '', 't', 't', 7)")
        old.execute("PRAGMA user_version = 1")
    db.migrate(path)
    db.migrate(path)
    with sqlite3.connect(path) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (len(db.MIGRATIONS),)
        assert new.execute("SELECT name, sequence FROM projects").fetchall() == [("Kept", 7)]
        assert new.execute("SELECT count(*) FROM joins").fetchone() == (0,)


def test_a_failing_migration_leaves_the_workspace_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.sqlite"
    db.migrate(path)
    broken = ["CREATE TABLE half (id TEXT)", "CREATE NONSENSE"]
    monkeypatch.setattr(db, "MIGRATIONS", [*db.MIGRATIONS, broken])
    with pytest.raises(InputError):
        db.migrate(path)
    assert "half" not in _columns(path)
    with sqlite3.connect(path) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (len(db.MIGRATIONS) - 1,)


def test_a_workspace_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "later.sqlite"
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="Update reassembly"):
        db.migrate(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "workspace.sqlite"
    path.write_bytes(b"not a database, but long enough to look at" * 40)
    with pytest.raises(InputError, match="cannot be opened"):
        db.migrate(path)
