"""A whole depot parted into likely objects: every fragment's candidates make a graph, in which
pieces of one object hang together more than with others.

    OUT/objects.json           every object's fragments, and those that belong nowhere
    OUT/object_0001/           its pictures, as `reassembly solve OUT --each` reads them
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from reassembly.depot.search import Searcher, open_searcher
from reassembly.depot.search_file import search_on_one_thread
from reassembly.depot.store import open_depot
from reassembly.errors import InputError
from reassembly.io.files import check_output_folder, output_folder
from reassembly.io.images import is_image_name
from reassembly.workers import Died, check_cluster, cluster, run_each

__all__ = ["Objects", "find_objects", "objects_of", "save_objects"]

TOGETHER = 32
"""Fragments that a process looks at in one go."""
CANDIDATES, SHORT_LIST = 10, 40
"""Of each fragment: those that go into the graph, and those that are compared in full."""
LEAST = 0.4
"""Candidates with a lower score do not go into the graph."""
APART = 0.005
"""Two groups are one object where the links between them weigh more than this share of the product
of all their links: so a stray link between two large groups does not join them, and what counts as
one object does not depend on how many others lie beside it."""
FILE_NAME = "objects.json"

ObjectsProgress = Callable[[int, int, str], None]
Links = Mapping[tuple[str, str], float]
"""By pair of fragments, the lower id first, how likely they join."""


@dataclass(frozen=True)
class Objects:
    """Fragments that may belong together."""

    groups: tuple[tuple[str, ...], ...]
    """Ids, of two or more fragments each; the largest group first."""
    alone: tuple[str, ...]
    """Fragments that hang together with no other."""


def find_objects(
    index: str | PathLike[str],
    *,
    workers: int | None = None,
    ray: str | None = None,
    progress: ObjectsProgress | None = None,
) -> Objects:
    """Parts the fragments of an index into likely objects.

    Args:
        workers: processes at a time: 1 by default, or what the cluster has room for.
        ray: address of a Ray cluster whose machines all see the index.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    check_cluster(ray)
    _networkx()
    searcher = open_searcher(index)  # Its complaints come first.
    ids = list(searcher.ids)
    searcher.depot.close()
    chunks = [tuple(ids[k : k + TOGETHER]) for k in range(0, len(ids), TOGETHER)]
    links: dict[tuple[str, str], float] = {}
    done = 0
    with cluster(ray, index) as machines:
        for chunk, outcome in run_each(
            partial(_links_of, Path(index)),
            chunks,
            workers=workers or (1 if ray is None else None),
            machines=machines,
            prepare=search_on_one_thread,
        ):
            if isinstance(outcome, Died):
                raise InputError(
                    "a process that searched died", "Give the command again, or fewer --workers"
                )
            for pair, score in outcome:
                links[pair] = max(score, links.get(pair, 0.0))
            done += len(chunk)
            if progress is not None:
                progress(done, len(ids), "searching")
    return objects_of(ids, links)


def objects_of(ids: Sequence[str], links: Links) -> Objects:
    """Parts a graph of fragments into groups that hang together (Louvain's method)."""
    networkx = _networkx()
    graph = networkx.Graph()
    graph.add_nodes_from(sorted(ids))
    graph.add_weighted_edges_from(
        (a, b, score) for (a, b), score in sorted(links.items()) if score >= LEAST
    )
    total = 2 * graph.size(weight="weight")
    found = networkx.community.louvain_communities(
        graph, weight="weight", resolution=max(APART * total, 1e-9), seed=0
    )
    groups = sorted((tuple(sorted(group)) for group in found), key=lambda g: (-len(g), g))
    return Objects(
        tuple(group for group in groups if len(group) > 1),
        tuple(group[0] for group in groups if len(group) == 1),
    )


def save_objects(
    objects: Objects,
    index: str | PathLike[str],
    out: str | PathLike[str],
    *,
    force: bool = False,
    progress: ObjectsProgress | None = None,
) -> None:
    """Writes objects.json, and for each object a folder that `reassembly.load` reads.

    Pictures are linked where the disk allows it, else copied.
    """
    check_output_folder(out, force)
    depot = open_depot(index)
    try:
        pictures, scales = depot.pictures(), depot.scales()
    finally:
        depot.close()
    names = [f"object_{number:04d}" for number in range(1, len(objects.groups) + 1)]
    told = {
        "objects": [
            {"name": name, "fragments": list(group)}
            for name, group in zip(names, objects.groups, strict=True)
        ],
        "alone": list(objects.alone),
    }
    with output_folder(out, force=force, replaces=_earlier(Path(out))) as folder:
        text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
        (folder / FILE_NAME).write_text(text, encoding="utf-8")
        for number, (name, group) in enumerate(zip(names, objects.groups, strict=True), 1):
            place = folder / name
            place.mkdir()
            own = {}
            for fragment in group:
                picture = _place_picture(Path(pictures[fragment]), fragment, place)
                own[picture] = scales[fragment]
            scale = json.dumps({"mm_per_px": own}, indent=1, ensure_ascii=False)
            (place / "scale.json").write_text(scale + "\n", encoding="utf-8")
            if progress is not None:
                progress(number, len(names), "pictures")


def _earlier(out: Path) -> list[str]:
    """The pictures of earlier objects, which would mingle with new ones; other files stay."""
    return [
        glob.escape(file.relative_to(out).as_posix())
        for file in out.glob("object_[0-9]*/*")
        if file.name == "scale.json" or is_image_name(file.name)
    ]


def _place_picture(source: Path, fragment: str, place: Path) -> str:
    """Puts a picture into an object's folder; returns its name there."""
    name = fragment.replace("/", "~") + source.suffix
    if not source.is_file():
        raise InputError(
            f"the picture of fragment {fragment!r} is gone", "Put it back, or index anew", source
        )
    if zipfile.is_zipfile(source):
        raise InputError(
            f"fragment {fragment!r} is in a zip file", "Unpack it, and index the folder", source
        )
    target = place / name
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
    return name


def _links_of(index: Path, ids: Sequence[str]) -> list[tuple[tuple[str, str], float]]:
    searcher = _searcher(index)
    links = []
    for fragment in ids:
        row = searcher.depot.find(fragment)
        assert row is not None
        found = searcher.candidates(searcher.depot.coded(row), CANDIDATES, short_list=SHORT_LIST)
        links += [((min(fragment, one.id), max(fragment, one.id)), one.score) for one in found]
    return links


@lru_cache(maxsize=1)
def _searcher(index: Path) -> Searcher:
    return open_searcher(index)


def _networkx() -> Any:
    try:
        return import_module("networkx")
    except ImportError as error:
        raise InputError(
            "networkx, which --all needs, is not installed",
            'Install it with: pip install "reassembly[depot]"',
        ) from error
