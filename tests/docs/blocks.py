"""The commands and snippets of the documentation: found, and checked.

A fenced block of shell commands or Python is run, in order with the others of its page, unless an
HTML comment before it says otherwise:

    <!-- test: slow -->             run among the slow tests

What would take long, or another machine, is run small: see `tiny`.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from reassembly.cli import app
from reassembly.solvers.registry import available_solvers
from reassembly.training.run import named_config, train

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CARDS = sorted((ROOT / "src" / "reassembly" / "weights").glob("*.md"))
SHELL = {"sh", "bash", "console"}
MODES = {"run", "slow"}
BLOCK = re.compile(
    r"(?:^ *<!-- test: (?P<mode>\w+) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w+)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
INLINE = re.compile(r"`(reassembly [a-z][^`]*)`")
WrongUse = typer.BadParameter.__bases__
"""What is raised for a command that lacks something, which Typer does not name."""
TUTORIAL_SOLVERS = {"heap"}
"""Of a package that a page tells how to write."""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    mode: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Every fenced block of shell commands or Python."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in BLOCK.finditer(text):
        if match["kind"] not in SHELL | {"python"}:
            continue
        indent = match["indent"]
        body = "".join(line.removeprefix(indent) for line in match["text"].splitlines(True))
        line = text.count("\n", 0, match.start("text"))
        mode = match["mode"] or "run"
        if mode not in MODES:
            raise ValueError(f"{page}:{line}: there is no way to test called {mode!r}")
        found.append(Block(page, line, match["kind"], mode, body))
    return found


def files(page: Path) -> dict[str, str]:
    """What a page tells to write: YAML blocks that begin with the name of a file, and blocks that
    come after nothing but one."""
    text = page.read_text(encoding="utf-8")
    found = {
        name: body
        for body, name in re.findall(r"^```yaml\n(# (\w+\.yaml)\n.*?)^```$", text, re.M | re.S)
    }
    named = re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)^```$", text, re.M | re.S)
    return found | dict(named)


def commands(block: Block) -> list[list[str]]:
    """Each command as its words, without comments."""
    text = block.text.replace("\\\n", " ")
    if block.kind == "console":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
    # A hash within a word begins no comment.
    found = (shlex.split(re.sub(r"(^|\s)#.*", "", line)) for line in text.splitlines())
    return [words for words in found if words]


def inline_commands(page: Path) -> list[list[str]]:
    """Commands in the middle of sentences, which may leave out what is not talked about."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(match.split()).split(" ") for match in INLINE.findall(text)]


def whole_inline_commands(page: Path) -> list[list[str]]:
    """Those of them that can be typed as they stand, and that the page shows nowhere else."""
    shown = [words for block in blocks(page) if block.kind in SHELL for words in commands(block)]
    found: list[list[str]] = []
    for words in inline_commands(page):
        try:
            parsed(words)
        except WrongUse:
            continue
        if "…" not in words and words not in shown + found:
            found.append(words)
    return found


def expanded_commands(page: Path) -> list[list[str]]:
    """Commands of scripts with variables and loops, as a shell would call them."""
    script = "".join(re.findall(r"^```\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S))
    tell = "".join(
        f"{name}() {{ printf '%s\\0' {name} \"$@\" $'\\n'; }}\n"
        for name in ("reassembly", "python")
    )
    told = subprocess.run(["bash", "-euc", tell + script], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return [line.strip("\0").split("\0") for line in told.stdout.split("\n\0") if line]


def check_mentioned(words: list[str]) -> None:
    """Raises if there is no such command, or no such option."""
    command, rest = resolved(words)[1:]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    assert not hasattr(command, "resolve_command") or not rest or rest[0].startswith("-"), words
    unknown = {word for word in rest if word.startswith("--")} - known
    assert not unknown, f"{' '.join(words)}: no option {unknown}"


@cache
def program() -> Any:
    """All commands of ours, made once: there are many pages."""
    return typer.main.get_command(app)


def resolved(words: list[str]) -> tuple[Any, Any, list[str]]:
    """The context and the command that the first words name, and the other words."""
    command = program()
    context, rest = command.context_class(command, info_name="reassembly"), words[1:]
    while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        context = command.context_class(command, info_name=name, parent=context)
    return context, command, rest


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a `reassembly` command, converted and checked as if it were run."""
    context, command, rest = resolved(words)
    if "--help" in rest:
        return {}
    whole = command.make_context(context.info_name, list(rest), parent=context.parent)
    found: dict[str, Any] = whole.params
    return found


def check(words: list[str]) -> None:
    """Raises if a command names anything that there is not."""
    program = Path(words[0]).name
    if program == "reassembly":
        check_values(words[1], parsed(words))
    elif program == "torchrun":
        check(["reassembly", *words[words.index("reassembly.cli") + 1 :]])
    elif program == "make":
        text = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{re.escape(words[1])}:", text, re.M), f"no target {words[1]}"
    elif program in {"python", "python3"}:
        check_python(words)
    elif program == "pip":
        check_pip(words)
    elif program == "npm":
        scripts = json.loads((ROOT / "frontend" / "package.json").read_text("utf-8"))["scripts"]
        assert words[1] == "ci" or words[2] in scripts, words
    elif program == "pyinstaller":
        assert (ROOT / words[1]).is_file(), words[1]
    elif program == "ray":
        assert words[1] == "start" and {"--head", "--address"} & set(words), words
    elif program == "cd":
        assert words[1].startswith("/") or (ROOT / words[1]).is_dir(), words[1]
    else:
        raise AssertionError(f"nobody knows how to check {shlex.join(words)}")


def check_values(name: str, given: dict[str, Any]) -> None:
    """What the command itself would find out only later."""
    solvers = given.get("solver")
    named = [solvers] if isinstance(solvers, str) else list(solvers or [])
    unknown = set(named) - set(available_solvers()) - TUTORIAL_SOLVERS
    assert not unknown, f"no solver {unknown}"
    if name == "train":
        config = given["config"] or "default"
        if not config.endswith(".yaml"):
            named_config(config)
            check_changes(config, given["changes"] or [], given["steps"])


def check_changes(config: str, changes: list[str], steps: int | None) -> None:
    settings = train.__globals__["_settings"]
    settings(config, changes, steps, {}, ROOT)


def check_pip(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known = {*extras["optional-dependencies"]}
    for word in words[2:]:
        if found := re.fullmatch(r"reassembly\[(.*)\]", word):
            assert set(found[1].split(",")) <= known, word


class Parsed(Exception):  # noqa: N818
    """In the place of what a script would do."""


def check_python(words: list[str]) -> None:
    if words[1] == "-m":
        assert words[2] in {"hatchling", "venv", "pip"}, words
        return
    script = ROOT / words[1]
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *_: Any) -> None:
        try:
            parse(parser, words[2:])
        except SystemExit as error:
            raise AssertionError(f"{words[1]} does not take {words[2:]}") from error
        raise Parsed

    argparse.ArgumentParser.parse_args = parse_only  # type: ignore[method-assign,assignment]
    sys.path.insert(0, str(script.parent))  # As Python does.
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Parsed:
        return
    finally:
        sys.path.remove(str(script.parent))
        argparse.ArgumentParser.parse_args = parse  # type: ignore[method-assign]
    raise AssertionError(f"{words[1]} takes no arguments")


def run_python(block: Block, names: dict[str, Any]) -> None:
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    exec(code, names)
