"""Everything that gets installed with the package is listed with its licence."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def licences():
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module  # Its dataclasses look there for their annotations.
    spec.loader.exec_module(module)
    yield module
    del sys.modules["licences"]


def test_no_dependency_is_missing_from_the_page_or_of_unknown_licence(licences):
    packages = licences.gather(licences.direct())
    packages |= licences.added_by_extras(packages)
    shown = licences.listed()
    hint = "run `python tools/licences.py`"
    assert sorted(set(packages) - set(shown)) == [], hint
    assert [name for name, licence in shown.items() if licence in {"None", "UNKNOWN"}] == []
    changed = {
        name: (shown[name], package.licence)
        for name, package in packages.items()
        if package.licence is not None and not shown[name].startswith(package.licence)
    }
    assert changed == {}, hint


def test_every_extra_of_the_project_is_listed_with_what_it_adds(licences):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    optional = tomllib.loads(text)["project"]["optional-dependencies"]
    assert {"ray", "depot"} <= optional.keys()
    page = licences.PAGE.read_text(encoding="utf-8").partition("## What the extras add")[2]
    everywhere = licences.listed().keys()
    for extra, wanted in optional.items():
        assert f"`{extra}`" in page.partition("|")[0]
        for name in (re.match(r"[\w.-]+", each)[0].lower() for each in wanted):
            assert name in {*everywhere, "reassembly"}, "run `python tools/licences.py`"
    assert re.search(r"^\| faiss-cpu \| MIT \| depot \|$", page, re.M)


def test_what_the_page_is_built_from_is_listed(licences):
    text = licences.PAGE.read_text(encoding="utf-8")
    for name, licence in licences.built_into_the_page().items():
        assert f"| {name} | {licence} |" in text, "run `python tools/licences.py`"
        assert licence in {"MIT", "ISC", "BSD-3-Clause", "Apache-2.0"}
    for name, licence in licences.builds_the_page().items():
        assert f"{name} ({licence})" in text, "run `python tools/licences.py`"


def test_a_licence_is_read_from_wherever_metadata_has_it(licences, tmp_path):
    def told(*lines):
        place = tmp_path / "some.dist-info"
        place.mkdir(exist_ok=True)
        text = "\n".join(["Metadata-Version: 2.4", "Name: some", "Version: 1", *lines])
        (place / "METADATA").write_text(text + "\n\n", encoding="utf-8")
        return licences.licence_of(licences.metadata.PathDistribution(place).metadata)

    assert told("License-Expression: MIT OR Apache-2.0") == "MIT OR Apache-2.0"
    assert told("License: Apache 2.0") == "Apache-2.0"
    assert told("License: BSD", "Classifier: License :: OSI Approved :: BSD License") == "BSD"
    long = "License: Copyright (c) 2015\n        All rights reserved."
    assert told(long, "Classifier: License :: OSI Approved :: MIT License") == "MIT"
    assert told() is None


def test_nothing_is_copyleft_unnoticed(licences):
    strong = {name for name, licence in licences.listed().items() if "GPL" in licence}
    assert strong == {*licences.WHEELS, *licences.TOOLS}
    runtime = set(licences.gather(licences.direct()))
    assert not runtime & set(licences.TOOLS)


def test_the_bundle_leaves_out_what_would_put_it_under_the_gpl(licences):
    under_gpl = [name for name, (_, licence) in licences.WHEELS.items() if licence[:3] == "GPL"]
    recipe = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    assert under_gpl == ["pillow-heif"]
    modules = [name.replace("-", "_") for name in under_gpl]
    assert all(f"--exclude-module {module} " in recipe for module in modules)
