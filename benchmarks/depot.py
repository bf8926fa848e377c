"""Prints how many true joins are among the candidates that an index tells, and what it takes.

python benchmarks/depot.py --data DATA --index INDEX --sizes 1000 3000

DATA holds puzzles with true poses; INDEX is made of them, or carried on, if it is not complete.
True joins are the pairs that are neighbours by the protocol `strict`. Smaller depots are those of
the first puzzles.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import shapely
from PIL import Image

from reassembly.depot.index import index_folder
from reassembly.depot.objects import find_objects
from reassembly.depot.search import open_searcher
from reassembly.depot.search_file import search_on_one_thread, write_search_file
from reassembly.depot.store import Depot, FragmentRow, Read, Unit, open_depot
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.pose import from_repair

FIRST = (10, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--wear", choices=("worn", "light"), help="as of `reassembly index`")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="of smaller depots")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--objects", action="store_true", help="part each depot into objects, too")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    done = index_folder(arguments.data, arguments.index, wear=arguments.wear)
    if done.added:
        wall = time.perf_counter() - begun
        used = sum(
            resource.getrusage(who).ru_utime
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        print(f"{done.added} fragments indexed: {wall / done.added:.3f} s each, ", end="")
        print(f"{used / done.added:.3f} s of processor time\n")
    search_on_one_thread()
    depot = open_depot(arguments.index)
    rows = list(depot.rows())
    joins = true_joins(rows)
    print("| fragments | joins asked for | recall at 10 | recall at 50 | chance at 50 |", end="")
    print(" MB | kB a fragment | s a query | of processor time |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in [*arguments.sizes, len(rows)]:
        with tempfile.TemporaryDirectory() as folder:
            place = arguments.index if size >= len(rows) else smaller(depot, rows, size, folder)
            print(line(place, joins, arguments.queries), flush=True)
            if arguments.objects:
                print_objects(place)
    depot.close()


def true_joins(rows: Sequence[FragmentRow]) -> dict[str, set[str]]:
    """By fragment, its true neighbours."""
    joins: dict[str, set[str]] = defaultdict(set)
    puzzles: dict[str, list[FragmentRow]] = defaultdict(list)
    for row in rows:
        puzzles[row.unit].append(row)
    for unit, pieces in puzzles.items():
        document = json.loads((Path(unit) / "data.json").read_text(encoding="utf-8"))
        poses = {}
        for entry in document["fragments"]:
            if "pixel_position" not in entry:  # A stray.
                continue
            with Image.open(Path(unit) / entry["filename"]) as picture:
                frame = picture.size
            poses[entry["filename"]] = from_repair(
                *entry["pixel_position"], entry["rotation"], frame, pieces[0].mm_per_px
            )
        outlines = Outlines({row.id: shapely.from_wkb(row.outline) for row in pieces})
        names = {row.id: Path(row.picture).name for row in pieces}
        truth = {i: poses[name] for i, name in names.items() if name in poses}
        for a, b in shared_edges(outlines, truth):
            joins[a].add(b)
            joins[b].add(a)
    return joins


def smaller(depot: Depot, rows: Sequence[FragmentRow], size: int, folder: str) -> Path:
    """An index of the first puzzles, up to so many fragments."""
    chosen: dict[str, list[FragmentRow]] = {}
    for unit in sorted({row.unit for row in rows}):
        own = [row for row in rows if row.unit == unit]
        if sum(map(len, chosen.values())) + len(own) > size:
            break
        chosen[unit] = own
    part = open_depot(folder, create=True)
    part.add(
        [
            Read(Unit(unit, ""), [(row.picture, depot.coded(row)) for row in own])
            for unit, own in chosen.items()
        ]
    )
    write_search_file(part, None)
    part.close()
    return Path(folder)


def line(place: Path, joins: dict[str, set[str]], queries: int) -> str:
    """A row of the table."""
    searcher = open_searcher(place)
    asked = [i for i in searcher.ids if joins[i]]
    asked = np.random.default_rng(0).permutation(asked)[:queries].tolist()
    found: Counter[int] = Counter()
    spent, used, total = 0.0, 0.0, 0
    for fragment in asked:
        begun = time.perf_counter(), time.process_time()
        row = searcher.depot.find(fragment)
        assert row is not None
        told = [one.id for one in searcher.candidates(searcher.depot.coded(row), max(FIRST))]
        spent += time.perf_counter() - begun[0]
        used += time.process_time() - begun[1]
        total += len(joins[fragment])
        for first in FIRST:
            found[first] += len(joins[fragment] & set(told[:first]))
    count = len(searcher.ids)
    mb = sum(file.stat().st_size for file in place.iterdir()) / 1e6
    searcher.depot.close()
    recalls = " | ".join(f"{found[first] / total:.3f}" for first in FIRST)
    return (
        f"| {count} | {total} | {recalls} | {max(FIRST) / (count - 1):.3f} | {mb:.0f} | "
        f"{1000 * mb / count:.1f} | {spent / len(asked):.2f} | {used / len(asked):.2f} |"
    )


def print_objects(place: Path) -> None:
    """How well the depot comes apart into objects: pairs of pieces in one group."""
    begun = time.perf_counter()
    objects = find_objects(place)
    spent = time.perf_counter() - begun
    ids = [*objects.alone, *(i for group in objects.groups for i in group)]
    true = Counter(i.rpartition("/")[0] for i in ids)
    shared = [Counter(i.rpartition("/")[0] for i in group) for group in objects.groups]
    right = sum(pairs(n) for group in shared for n in group.values())
    told = sum(pairs(len(group)) for group in objects.groups)
    print(
        f"\n{len(ids)} fragments of {len(true)} objects, {len(objects.groups)} groups, "
        f"{len(objects.alone)} alone: precision of pairs {right / max(told, 1):.3f}, recall "
        f"{right / sum(map(pairs, true.values())):.3f}, {spent / len(ids):.2f} s a fragment\n",
        flush=True,
    )


def pairs(count: int) -> int:
    return count * (count - 1) // 2


if __name__ == "__main__":
    main()
