"""Writes docs/licences.md: the licence of everything that `pip install reassembly` installs.

    python tools/licences.py

Names come from pyproject.toml and from the metadata of what is installed, and so do licences. What
metadata cannot tell is in the tables below, with where it was read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"

OTHER_SYSTEMS = {"colorama": ("BSD-3-Clause", "Windows")}
"""What other systems need and may be absent here."""

IRRELEVANT = {"httpx2-jsfetch"}
"""Only for Python inside a browser."""

OF_CUDA = ("nvidia-", "cuda-", "triton")
"""What torch made for CUDA adds: how names begin. The text below the table tells of them."""

SYSTEMS = [
    {"platform_system": system, "sys_platform": name, "platform_machine": machine}
    for system, name in {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}.items()
    for machine in ("x86_64", "AMD64", "aarch64", "arm64")
]

CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "ISC License": "ISC",
}

WHEELS = {
    "pillow-heif": ("libheif, libde265 (LGPL-3.0), x265", "GPL-2.0"),
    "shapely": ("GEOS", "LGPL-2.1"),
    "opencv-python-headless": ("FFmpeg", "LGPL-2.1"),
}
"""Libraries inside binary wheels under stronger terms, as those wheels' own notices say."""

HEAD = """\
# Licences

reassembly is under Apache-2.0, and so are the weights that come with it. This page lists what
`pip install reassembly` installs with it on Linux, macOS and Windows, without the extras. It is
made by `python tools/licences.py` from the packages' own metadata, and a test fails when something
is missing or its licence is unknown.

| package | licence | needed by |
| --- | --- | --- |
"""

PAGE_PART = """
## What the workbench's page contains

| npm package | licence |
| --- | --- |
{rows}
"""

TAIL = """
## What wheels contain besides

Binary wheels bring compiled libraries of others along. Three are under stronger terms than the
package that carries them:

| wheel | contains | under |
| --- | --- | --- |
{wheels}

Wheels of torch for CUDA also install triton (MIT) and NVIDIA's libraries, which are not free
software; wheels for the CPU do not. Wheels with Fortran inside, such as numpy's, carry GCC's
runtime, under the GPL with an exception that lets anyone link to it.

Who installs with pip gets each wheel from its makers, and has nothing to do. Who passes on a bundle
that holds them passes on all of this: because of x265, a bundle with pillow-heif's wheel is under
the GPL's terms as a whole, which those of Apache-2.0 do not fit in version 2. So
[the recipe for a bundle](release.md#a-double-click-bundle) leaves pillow-heif out.
"""


@dataclass
class Package:
    """One line of the table."""

    name: str
    licence: str | None
    needed_by: set[str] = field(default_factory=set)


def direct() -> list[Requirement]:
    """What pyproject.toml asks for, without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in project["dependencies"]]


def licence_of(about: metadata.PackageMetadata) -> str | None:
    """As an SPDX expression where metadata has one; None where it tells nothing short."""
    values = about.json  # Its keys are the same in every version of the format.
    expression = values.get("license_expression")
    if expression:
        return str(expression)
    classifiers = [
        CLASSIFIERS.get(text.rpartition(" :: ")[2], text.rpartition(" :: ")[2])
        for text in values.get("classifier", [])
        if text.startswith("License ::")
    ]
    text = str(values.get("license") or "").strip()
    short = SPELLINGS.get(text, text)
    if short and "\n" not in short and len(short) < 60 and short != "BSD":
        return short
    return " AND ".join(classifiers) or short[:60].partition("\n")[0] or None


def gather(wanted: Iterable[Requirement]) -> dict[str, Package]:
    """All that is installed because of these, by canonical name."""
    found: dict[str, Package] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(requirement, "reassembly") for requirement in wanted]
    while todo:
        requirement, parent = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in IRRELEVANT or name.startswith(OF_CUDA):
            continue
        try:
            about: metadata.Distribution | None = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            about = None
        if name not in found:
            known = OTHER_SYSTEMS[name][0] if name in OTHER_SYSTEMS else None
            licence = known or (None if about is None else licence_of(about.metadata))
            found[name] = Package(name, licence)
        found[name].needed_by.add(parent)
        key = (name, frozenset(requirement.extras))
        if about is None or key in seen:
            continue
        seen.add(key)
        todo += [
            (needed, name)
            for needed in map(Requirement, about.requires or [])
            if _applies(needed, requirement.extras)
        ]
    return found


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether this, or one of the other systems, needs it."""
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate({**system, "extra": extra})
        for system in SYSTEMS
        for extra in ("", *extras)
    )


def listed() -> dict[str, str]:
    """Package to licence, as the page has it."""
    table = PAGE.read_text(encoding="utf-8").partition("| --- | --- | --- |")[2].partition("##")[0]
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \| ", table, re.M))


def built_into_the_page() -> dict[str, str]:
    """Package to licence of what the workbench's page contains, as npm locked it."""
    lock = ROOT / "frontend" / "package-lock.json"
    if not lock.is_file():
        return {}
    entries = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    return {
        place.removeprefix("node_modules/"): entry.get("license", "None")
        for place, entry in sorted(entries.items())
        if place and not entry.get("dev")
    }


def page(packages: dict[str, Package]) -> str:
    rows = []
    for name, package in sorted(packages.items()):
        others = sorted(package.needed_by - {"reassembly"})
        by = ["**reassembly**"] if "reassembly" in package.needed_by else []
        by += others[:3] + ([f"{len(others) - 3} more"] if len(others) > 3 else [])
        where = f" ({OTHER_SYSTEMS[name][1]} only)" if name in OTHER_SYSTEMS else ""
        inside = f"; its wheel {WHEELS[name][1]}" if name in WHEELS else ""
        rows.append(f"| {name} | {package.licence}{inside} | {', '.join(by)}{where} |")
    wheels = [f"| {name} | {what} | {terms} |" for name, (what, terms) in WHEELS.items()]
    built = [f"| {name} | {licence} |" for name, licence in built_into_the_page().items()]
    inside_page = PAGE_PART.format(rows="\n".join(built)) if built else ""
    return HEAD + "\n".join(rows) + "\n" + inside_page + TAIL.format(wheels="\n".join(wheels))


def main() -> None:
    packages = gather(direct())
    unknown = [name for name, package in packages.items() if package.licence is None]
    if unknown:
        raise SystemExit(f"no licence is known of {', '.join(sorted(unknown))}")
    PAGE.write_text(page(packages), encoding="utf-8", newline="\n")
    print(f"{PAGE.relative_to(ROOT)}: {len(packages)} packages")


if __name__ == "__main__":
    main()
