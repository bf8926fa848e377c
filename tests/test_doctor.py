"""What the doctor says of a sound installation, and of broken ones, which must not break it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import reassembly
from reassembly import doctor
from reassembly.doctor import State, diagnose, try_libraries

PACKAGE = Path(reassembly.__file__).parent


def ask(*arguments, path):
    """The command's exit code and its JSON, with `path` before all other places of modules."""
    inherited = [place for place in [os.environ.get("PYTHONPATH")] if place]
    done = subprocess.run(
        [sys.executable, "-m", "reassembly.cli", "doctor", *map(str, arguments), "--json"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *inherited])},
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def of(answer, about):
    return [finding for finding in answer["findings"] if finding["about"] == about]


@pytest.fixture
def own_copy(tmp_path):
    """The package, to be damaged."""
    place = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, place / "src" / "reassembly", ignore=ignored)
    shutil.copytree(PACKAGE.parents[1] / "configs", place / "configs")
    return place / "src"


def test_nothing_is_to_be_mended_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = diagnose()
    assert [f for f in found if f.state is State.mend] == []
    assert {f.about for f in found} == {
        "system",
        "packages",
        "extras",
        "libraries",
        "GPU",
        "memory",
        "weights",
        "files",
        "folder",
        "browser",
    }
    assert list(tmp_path.iterdir()) == []


def test_a_broken_torch_and_broken_weights_are_named_with_what_to_do(own_copy, tmp_path):
    (own_copy / "torch").mkdir()
    broken = "raise OSError('libc10.so: file too short')\n"
    (own_copy / "torch" / "__init__.py").write_text(broken, encoding="utf-8")
    weights = own_copy / "reassembly" / "weights"
    content = (weights / "texture.safetensors").read_bytes()
    (weights / "texture.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (weights / "selector.safetensors").unlink()
    (own_copy / "reassembly" / "io" / "templates" / "report.html.j2").unlink()

    code, answer = ask(tmp_path / "nowhere", path=[own_copy])

    assert code == 2 and not answer["fine"]
    (torch,) = of(answer, "libraries")
    assert torch["state"] == "mend" and "libc10.so: file too short" in torch["what"]
    assert torch["remedy"].endswith("pip install --force-reinstall torch")
    said = {f["what"] for f in of(answer, "weights") if f["state"] == "mend"}
    assert said == {
        "the weights selector are missing",
        "the weights texture are damaged: their checksum is wrong",
    }
    (lost,) = of(answer, "files")
    assert "report.html.j2" in lost["what"] and lost["remedy"].startswith("Install reassembly")
    assert "nowhere is no folder" in of(answer, "folder")[0]["what"]
    assert all(f["remedy"] for f in answer["findings"] if f["state"] == "mend")


def test_extras_are_listed_with_how_to_get_those_that_are_missing(tmp_path, monkeypatch):
    """An installation that asks for what is nowhere: the same metadata, with another ray."""
    about = tmp_path / "reassembly-9.dist-info"
    about.mkdir()
    ours = metadata.distribution("reassembly").read_text("METADATA")
    (about / "METADATA").write_text(ours.replace("Requires-Dist: ray>", "Requires-Dist: rayless>"))
    monkeypatch.syspath_prepend(tmp_path)
    found = {finding.what.partition(" ")[0]: finding for finding in doctor._extras()}
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert found.keys() == project["project"]["optional-dependencies"].keys()
    depot, ray = found["depot"], found["ray"]
    assert depot.state is State.fine and "depot is installed" in depot.what
    assert ray.state is State.note and "ray is not installed" in ray.what
    assert ray.remedy.endswith('pip install "reassembly[ray]"')


def test_a_damaged_list_of_weights(own_copy):
    index = own_copy / "reassembly" / "weights" / "index.json"
    index.write_text(index.read_text(encoding="utf-8")[:100], encoding="utf-8")
    code, answer = ask(path=[own_copy])
    assert code == 2
    (weights,) = of(answer, "weights")
    assert weights["state"] == "mend" and "the list of weights is damaged" in weights["what"]


def test_what_cannot_be_looked_at_does_not_hide_the_rest(own_copy):
    for name in ("cv2", "psutil"):
        (own_copy / f"{name}.py").write_text("raise ImportError('half')\n", encoding="utf-8")
    code, answer = ask(path=[own_copy])
    assert code == 2
    bad = {f["about"] for f in answer["findings"] if f["state"] == "mend"}
    assert bad == {"libraries", "memory", "weights"}
    assert {"system", "GPU", "files", "folder", "browser"} <= {
        f["about"] for f in answer["findings"]
    }


def test_a_library_that_ends_the_process_does_not_end_the_doctor(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    bodies = {
        "ends": "import os\nos._exit(70)\n",
        "leaves": "raise SystemExit('no licence')\n",
        "lacks": "import this_is_nowhere\n",
        "warns": "import warnings\nwarnings.warn('old driver')\n__version__ = '7'\n",
    }
    for name, body in bodies.items():
        (tmp_path / f"{name}_library.py").write_text(body, encoding="utf-8")
    answers = try_libraries([f"{name}_library" for name in bodies])
    assert [answer["error"] for answer in answers.values()] == [
        "importing it ends the process (exit code 70)",
        "SystemExit: no licence",
        "ModuleNotFoundError: No module named 'this_is_nowhere'",
        "",
    ]
    assert answers["warns_library"]["version"] == "7"
    assert answers["warns_library"]["warnings"] == ["old driver"]


def torch_with(gpu):
    """The source of a torch that sees one GPU, whose memory is what `gpu` says."""
    return f"""
__version__ = "9.0"
class version:
    cuda = "13.0"
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda k: "Some GPU")
    def mem_get_info(k):
        {gpu}
"""


def test_gpus_are_told_with_their_memory_and_one_that_is_lost_is_no_torch_that_is_broken(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "torch.py"
    file.write_text(torch_with("return 2 << 30, 8 << 30"), encoding="utf-8")
    found = doctor._gpu(try_libraries(["torch"])["torch"])
    assert found.state is State.fine and "Some GPU, 2.0 of 8.0 GiB free" in found.what

    monkeypatch.setattr(doctor, "_nvidia_card", lambda: "Some GPU")
    file.write_text(torch_with("raise RuntimeError('CUDA error: gone')"), encoding="utf-8")
    told = try_libraries(["torch"])["torch"]
    found = doctor._gpu(told)
    assert told["error"] == "" and found.state is State.note
    assert "torch cannot use it; torch says: CUDA error: gone" in found.what
    assert "CUDA 13.0" in found.remedy


def test_a_library_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    body = "import time\ntime.sleep(600)\n"
    (tmp_path / "hanging_library.py").write_text(body, encoding="utf-8")
    monkeypatch.setattr(doctor, "PATIENCE_S", 2.0)
    answers = try_libraries(["hanging_library"])
    assert answers["hanging_library"]["error"] == "importing it takes longer than 2 s"


def installed(folder, name, version, requires=()):
    """Metadata as an installer leaves it."""
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    (place / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_versions_are_held_against_the_ranges_of_the_installation(tmp_path, monkeypatch):
    needs = [
        "early>=2",
        "late<3",
        "right>=1.2,<2",
        "absent>=4",
        'elsewhere>=1; sys_platform == "never"',
        'extra-one>=1; extra == "dev"',
    ]
    installed(tmp_path, "reassembly", reassembly.__version__, needs)
    for name, version in {"early": "1.9", "late": "3.0", "right": "1.10+cpu"}.items():
        installed(tmp_path, name, version)
    monkeypatch.syspath_prepend(tmp_path)
    assert metadata.version("late") == "3.0"
    found = list(doctor._packages())
    assert [(f.state, f.what, f.remedy) for f in found] == [
        (State.mend, "early is 1.9, and early>=2 is asked for", 'pip install "early>=2"'),
        (State.mend, "late is 3.0, and late<3 is asked for", 'pip install "late<3"'),
        (State.mend, "absent is missing", 'pip install "absent>=4"'),
    ]


def test_a_folder_that_may_not_be_written_to(tmp_path):
    place = tmp_path / "locked"
    place.mkdir()
    place.chmod(0o500)
    try:
        (place / "probe").touch()
    except OSError:
        (found,) = doctor._folder(place)
        assert found.state is State.mend and "cannot be written to" in found.what
    else:
        pytest.skip("whoever runs this may write everywhere")
    finally:
        place.chmod(0o700)
