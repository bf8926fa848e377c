"""Writes docs/licences.md: the licence of everything that `pip install reassembly` installs, with
and without its extras, and of what the workbench's page is made of.

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
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"

OTHER_SYSTEMS = {
    "colorama": ("BSD-3-Clause", "Windows"),
    "macholib": ("MIT", "macOS"),
    "pefile": ("MIT", "Windows"),
    "pywin32-ctypes": ("BSD-3-Clause", "Windows"),
}
"""What other systems need and may be absent here."""

ELSEWHERE = {"atheris": "Apache-2.0"}
"""What may be absent here though an extra asks for it: it has no wheels for every Python."""

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
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "UNKNOWN": "",
}

WHEELS = {
    "pillow-heif": ("libheif, libde265 (LGPL-3.0), x265", "GPL-2.0"),
    "shapely": ("GEOS", "LGPL-2.1"),
    "opencv-python-headless": ("FFmpeg", "LGPL-2.1"),
}
"""Libraries inside binary wheels under stronger terms, as those wheels' own notices say."""

TOOLS = ("pyinstaller", "pyinstaller-hooks-contrib")
"""Tools of developers under the GPL, with an exception for what they make."""

HEAD = """\
# Licences

reassembly is under Apache-2.0, and so are the weights that come with it. This page lists what
`pip install reassembly` installs with it on Linux, macOS and Windows, and what its extras add. It
is made by `python tools/licences.py` from the packages' own metadata, and a test fails when
something is missing or its licence is unknown.

| package | licence | needed by |
| --- | --- | --- |
"""

EXTRAS = """
## What the extras add

`depot` and `ray` are for users; `dev`, `docs` and `fuzz` are for those who work on reassembly.

| package | licence | with |
| --- | --- | --- |
{rows}
"""

PAGE_PART = """
## What the workbench's page contains

| npm package | licence |
| --- | --- |
{rows}

It is built with {tools}; none of them is in it.
"""

TAIL = """
## What wheels contain besides

PyInstaller, which makes the [bundle](release.md#a-double-click-bundle), and is for developers
alone, is under the GPL with an exception: what it makes may be under any licence.

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
    return [Requirement(text) for text in _project()["dependencies"]]


def extras() -> dict[str, list[Requirement]]:
    """By the name of each extra what it asks for; those it consists of are named in its place."""
    optional = _project()["optional-dependencies"]
    own = {name: [Requirement(text) for text in texts] for name, texts in optional.items()}
    return {
        name: [r for r in wanted if r.name != "reassembly"] for name, wanted in sorted(own.items())
    }


def _project() -> dict[str, Any]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


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
            known = OTHER_SYSTEMS[name][0] if name in OTHER_SYSTEMS else ELSEWHERE.get(name)
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


def added_by_extras(packages: dict[str, Package]) -> dict[str, Package]:
    """What is installed with some extra and not without; `needed_by` names the extras."""
    added: dict[str, Package] = {}
    for extra, wanted in extras().items():
        for name, package in gather(wanted).items():
            if name not in packages:
                added.setdefault(name, Package(name, package.licence)).needed_by.add(extra)
    return added


def listed() -> dict[str, str]:
    """Package to licence, as the page has it."""
    tables = PAGE.read_text(encoding="utf-8").partition("## What wheels contain")[0]
    rows = re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \| ", tables, re.M)
    return {name: licence for name, licence in rows if name != "package"}


def built_into_the_page() -> dict[str, str]:
    """Package to licence of what the workbench's page contains, as npm locked it."""
    return {name: licence for name, (licence, dev) in _locked().items() if not dev}


def builds_the_page() -> dict[str, str]:
    """Package to licence of what package.json asks for to build it."""
    text = (ROOT / "frontend" / "package.json").read_text(encoding="utf-8")
    wanted, locked = json.loads(text)["devDependencies"], _locked()
    return {name: locked[name][0] for name in sorted(wanted)}


def _locked() -> dict[str, tuple[str, bool]]:
    """Package to licence, and whether it is for development alone."""
    text = (ROOT / "frontend" / "package-lock.json").read_text(encoding="utf-8")
    return {
        place.removeprefix("node_modules/"): (entry.get("license", "None"), bool(entry.get("dev")))
        for place, entry in sorted(json.loads(text)["packages"].items())
        if place
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
    tools = ", ".join(f"{name} ({licence})" for name, licence in builds_the_page().items())
    more = [
        f"| {name} | {package.licence} | {', '.join(sorted(package.needed_by))} |"
        for name, package in sorted(added_by_extras(packages).items())
    ]
    return (
        HEAD
        + "\n".join(rows)
        + "\n"
        + EXTRAS.format(rows="\n".join(more))
        + PAGE_PART.format(rows="\n".join(built), tools=tools)
        + TAIL.format(wheels="\n".join(wheels))
    )


def main() -> None:
    packages = gather(direct())
    everything = packages | added_by_extras(packages)
    unknown = [name for name, package in everything.items() if package.licence is None]
    if unknown:
        raise SystemExit(f"no licence is known of {', '.join(sorted(unknown))}")
    PAGE.write_text(page(packages), encoding="utf-8", newline="\n")
    print(f"{PAGE.relative_to(ROOT)}: {len(everything)} packages")


if __name__ == "__main__":
    main()
