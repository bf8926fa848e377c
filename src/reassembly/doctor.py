"""Is everything in place on this machine? And where it is not: what to do.

Nothing here may fail because of what it looks for, so libraries are tried in a process of their
own, and this module imports nothing but the standard library until it is asked.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reassembly._version import __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["Finding", "State", "diagnose", "try_libraries"]

HERE = Path(__file__).parent
COMPILED = (
    "numpy",
    "cv2",
    "scipy.spatial",
    "shapely",
    "contourpy",
    "PIL.Image",
    "pillow_heif",
    "safetensors",
    "torch",
)
"""Libraries with compiled parts: they can be installed, and still not work."""
DISPENSABLE = {"pillow_heif": "HEIC pictures cannot be read without it"}
"""Libraries that only some input needs."""
EXTRAS = {
    "depot": "finds joins among thousands of fragments (index, find-joins)",
    "ray": "shares work out to many machines (--ray)",
    "dev": "runs the tests",
    "docs": "builds the documentation",
    "fuzz": "throws damaged files at the readers",
}
"""What can be installed besides, and what it is for."""
GPU = "GPU"
PATIENCE_S = 180.0
"""How long one library may take: the first import after an installation is slow."""
LITTLE_DISK_GB = 2.0
NO_DISK_GB = 0.1
LITTLE_MEMORY_GB = 4.0
AGAIN = "Install reassembly again: pip install --force-reinstall reassembly"


class State(StrEnum):
    """What a finding asks for."""

    fine = "fine"
    note = "note"
    """Good to know; everything works, or what does not was never asked for."""
    mend = "mend"
    """Something will fail until this is mended."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: State
    what: str
    remedy: str = ""
    """What to do, without a full stop; empty where nothing is to be done."""


def diagnose(folder: str | os.PathLike[str] = ".") -> list[Finding]:
    """Looks at Python, packages, extras, GPU, memory, weights, the page, the disk and the browser.

    Args:
        folder: where work is to be done: whether it can be written to, and how much room is left.
    """
    parts: dict[str, Callable[[], Iterator[Finding]]] = {
        "system": _system,
        "packages": _packages,
        "extras": _extras,
        "libraries": _libraries,
        "memory": _memory,
        "weights": _weights,
        "files": _files,
        "folder": lambda: _folder(Path(folder)),
        "browser": _browser,
    }
    found: list[Finding] = []
    for about, part in parts.items():
        try:
            found += part()
        except Exception as error:  # Whatever is broken, the other parts are still looked at.
            what = f"this cannot be looked at ({type(error).__name__}: {_line(error)})"
            remedy = "Mend what else is named here, then ask again"
            found.append(Finding(about, State.mend, what, remedy))
    return found


def try_libraries(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Imports libraries in another process, which may crash.

    Returns:
        For each name `error`, empty where it works, and `version`; for torch also what it tells of
        GPUs. Libraries after one that crashed are tried in a further process.
    """
    found: dict[str, dict[str, Any]] = {}
    rest = list(names)
    while rest:
        answers, crash = _ask_process(rest)
        found |= answers
        rest = rest[len(answers) :]
        if rest:
            found[rest.pop(0)] = {"error": crash, "version": None}
    return found


def _ask_process(names: list[str]) -> tuple[dict[str, dict[str, Any]], str]:
    """What a process of its own tells of libraries, and why it stopped before the last one."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, names), daemon=True)
    process.start()
    theirs.close()
    found: dict[str, dict[str, Any]] = {}
    why = ""
    try:
        for name in names:
            if not ours.poll(PATIENCE_S):
                why = f"importing it takes longer than {PATIENCE_S:.0f} s"
                break
            found[name] = ours.recv()
    except EOFError:
        process.join(5.0)
        why = f"importing it ends the process (exit code {process.exitcode})"
    finally:
        process.kill()
        process.join()
        ours.close()
    return found, why


def _answer(pipe: Connection, names: list[str]) -> None:
    for name in names:
        answer: dict[str, Any] = {"error": "", "version": None}
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                module = importlib.import_module(name)
                top = sys.modules[name.partition(".")[0]]
                answer["version"] = str(getattr(top, "__version__", ""))
                if name == "torch":
                    answer[GPU] = _gpus(module)
            answer["warnings"] = [_line(warning.message) for warning in said]
        except BaseException as error:  # A broken library may raise anything, SystemExit too.
            answer["error"] = f"{type(error).__name__}: {_line(error)}"
        pipe.send(answer)


def _gpus(torch: Any) -> dict[str, Any]:
    """What torch tells: its CUDA version, and name and bytes (free, total) of every GPU.

    A GPU that does not answer becomes a warning.
    """
    gpus: list[tuple[str, int, int]] = []
    try:
        if torch.cuda.is_available():
            for k in range(torch.cuda.device_count()):
                free, total = torch.cuda.mem_get_info(k)
                gpus.append((str(torch.cuda.get_device_name(k)), int(free), int(total)))
    except Exception as error:  # What a driver's failure raises differs by torch's version.
        warnings.warn(_line(error))
    return {"cuda": torch.version.cuda, "gpus": gpus}


def _system() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"Python {platform.python_version()} at {sys.executable}"
    yield Finding("system", State.fine, f"reassembly {__version__} on {system}; {python}")
    if sys.maxsize < 2**32:
        yield Finding("system", State.mend, "this Python is of 32 bits", "Install one of 64 bits")


def _packages() -> Iterator[Finding]:
    """Versions against the ranges that this installation's metadata names."""
    try:
        listed = metadata.requires("reassembly") or []
        installed = metadata.version("reassembly")
    except metadata.PackageNotFoundError:
        what = "reassembly runs from a folder and is not installed, so ranges are unknown"
        yield Finding("packages", State.note, what, "Install it: pip install -e .")
        return
    try:
        from packaging.requirements import Requirement
    except ImportError:
        what = "packaging is missing, so the ranges of the others are unknown"
        yield Finding("packages", State.mend, what, "pip install packaging")
        return
    if installed != __version__:
        what = f"{installed} was installed, but {__version__} runs"
        yield Finding("packages", State.note, what, AGAIN)
    needed = [Requirement(text) for text in listed]
    needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    wrong = [finding for requirement in needed for finding in _package(requirement)]
    yield from wrong
    if not wrong:
        what = f"{len(needed)} packages are there, in the versions that are asked for"
        yield Finding("packages", State.fine, what)


def _extras() -> Iterator[Finding]:
    """Which extras are installed whole; what they are for, where they are not."""
    try:
        from packaging.requirements import Requirement

        listed = [Requirement(text) for text in metadata.requires("reassembly") or []]
    except (ImportError, metadata.PackageNotFoundError):  # Told of among the packages.
        return
    for extra, purpose in EXTRAS.items():
        needed = [
            each.name
            for each in listed
            if each.marker is not None
            and not each.marker.evaluate({"extra": ""})
            and each.marker.evaluate({"extra": extra})
        ]
        missing = [name for name in needed if name != "reassembly" and not _installed(name)]
        told = f"{extra} is not installed" if missing else f"{extra} is installed"
        remedy = f'Where wanted: pip install "reassembly[{extra}]"' if missing else ""
        state = State.note if missing else State.fine
        yield Finding("extras", state, f"{told}; it {purpose}", remedy)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _package(requirement: Requirement) -> Iterator[Finding]:
    wanted = f"{requirement.name}{requirement.specifier}"
    remedy = f'pip install "{wanted}"'
    try:
        version: str | None = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        version = None
    without = DISPENSABLE.get(requirement.name.replace("-", "_").lower())
    if version is None and without is not None:
        what = f"{requirement.name} is missing: {without}"
        yield Finding("packages", State.note, what, remedy)
    elif version is None:
        yield Finding("packages", State.mend, f"{requirement.name} is missing", remedy)
    elif not requirement.specifier.contains(version, prereleases=True):
        what = f"{requirement.name} is {version}, and {wanted} is asked for"
        yield Finding("packages", State.mend, what, remedy)


def _libraries() -> Iterator[Finding]:
    """Whether libraries load, and what torch finds."""
    answers = try_libraries(COMPILED)
    broken = {name: answer for name, answer in answers.items() if answer["error"]}
    for name, answer in broken.items():
        remedy = f"Install it again: pip install --force-reinstall {_distribution(name)}"
        what = f"{name} does not load ({answer['error']})"
        state = State.note if name in DISPENSABLE else State.mend
        yield Finding("libraries", state, what, remedy)
    if not broken:
        what = f"{', '.join(name.partition('.')[0] for name in answers)} load"
        yield Finding("libraries", State.fine, what)
    torch = answers["torch"]
    if not torch["error"]:
        yield _gpu(torch)


def _gpu(torch: dict[str, Any]) -> Finding:
    gpus = [
        f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        for name, free, total in torch[GPU]["gpus"]
    ]
    if gpus:
        what = f"{'; '.join(gpus)} (torch {torch['version']}); use it with --device cuda"
        return Finding("GPU", State.fine, what)
    card = _nvidia_card()
    said = "".join(f"; torch says: {text}" for text in torch["warnings"][:1])
    if card is None:
        what = f"no NVIDIA GPU was found, and none is needed but for training{said}"
        return Finding("GPU", State.note, what)
    if torch[GPU]["cuda"] is None:
        what = f"there is a GPU ({card}), but torch {torch['version']} is made for the CPU alone"
        return Finding("GPU", State.note, what, "To use it, install a torch made for CUDA")
    what = f"there is a GPU ({card}), but torch cannot use it{said}"
    remedy = f"To use it, install a driver for CUDA {torch[GPU]['cuda']} or later"
    return Finding("GPU", State.note, what, remedy)


def _nvidia_card() -> str | None:
    """The first GPU that NVIDIA's driver lists."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = told.stdout.decode("utf-8", "replace").splitlines()
    return names[0].strip() if told.returncode == 0 and names else None


def _memory() -> Iterator[Finding]:
    import psutil

    memory = psutil.virtual_memory()
    free_gb, total_gb = memory.available / 1e9, memory.total / 1e9
    what = f"{free_gb:.1f} of {total_gb:.1f} GB are free; {os.cpu_count()} cores"
    if total_gb < LITTLE_MEMORY_GB:
        remedy = "Close other programs, and give photographs of fewer pieces at once"
        yield Finding("memory", State.note, what, remedy)
    else:
        yield Finding("memory", State.fine, what)


def _weights() -> Iterator[Finding]:
    from reassembly.errors import InputError
    from reassembly.weights import how_to_restore, list_weights, load_weights

    again = how_to_restore()
    try:
        files = list_weights()
    except (ValueError, KeyError, TypeError, OSError) as error:
        what = f"the list of weights is damaged ({_line(error)})"
        yield Finding("weights", State.mend, what, again)
        return
    shipped = [file for file in files if file.shipped]
    wrong = []
    for file in shipped:
        if not file.present:
            wrong.append(f"the weights {file.name} are missing")
        elif _sha256(file.path) != file.sha256:
            wrong.append(f"the weights {file.name} are damaged: their checksum is wrong")
    if not shipped:
        wrong = ["no weights came with this installation"]
    yield from (Finding("weights", State.mend, what, again) for what in wrong)
    if not wrong:
        names = ", ".join(file.name for file in shipped)
        yield Finding("weights", State.fine, f"{names} are there, and whole")
    for file in files:
        if not file.shipped and file.present:
            try:
                load_weights(file.name, file.kind)
            except InputError as error:
                yield Finding("weights", State.mend, error.what, error.remedy)
                continue
        if not file.shipped:
            there = "are downloaded" if file.present else "are not downloaded, and seldom needed"
            state = State.fine if file.present else State.note
            remedy = "" if file.present else f"Where wanted: reassembly weights get {file.name}"
            yield Finding("weights", state, f"the published weights {file.name} {there}", remedy)


def _files() -> Iterator[Finding]:
    """What must have come with the package, besides weights."""
    wanted = ["io/templates/report.html.j2"]
    if (HERE / "app").is_dir():
        wanted.append("app/static/index.html")
    missing = [name for name in wanted if not (HERE / name).is_file()]
    # Of a checkout, the configurations lie beside src/.
    if not any((place / "configs" / "default.yaml").is_file() for place in (HERE, HERE.parents[1])):
        missing.append("configs/default.yaml")
    for name in missing:
        from reassembly.weights import how_to_restore

        what = f"{name} is missing from the installation"
        place = name if name.startswith("configs/") else f"src/reassembly/{name}"
        yield Finding("files", State.mend, what, how_to_restore(place))
    if not missing:
        yield Finding("files", State.fine, "pages, templates and configurations are there")


def _folder(folder: Path) -> Iterator[Finding]:
    shown = folder.resolve()
    if not folder.is_dir():
        yield Finding("folder", State.mend, f"{shown} is no folder", "Create it, or name another")
        return
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"reassembly")
        except OSError as error:
            what = f"{place.resolve()} cannot be written to ({error.strerror or error})"
            remedy = "Work in another folder, or ask for permission"
            yield Finding("folder", State.mend, what, remedy)
            return
    free_gb = shutil.disk_usage(folder).free / 1e9
    what = f"{shown} can be written to, and has room for {free_gb:.1f} GB"
    state = State.fine
    if free_gb < LITTLE_DISK_GB:
        state = State.mend if free_gb < NO_DISK_GB else State.note
    yield Finding("folder", state, what, "" if state is State.fine else "Make room on the disk")


def _browser() -> Iterator[Finding]:
    """Any browser shows pages; the tests' Chromium is not a user's concern."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        what = "no browser was found here; reports and pages open in one elsewhere"
        yield Finding("browser", State.note, what)
        return
    what = "reports and pages open in any browser; Chromium is not needed"
    yield Finding("browser", State.fine, what)


def _distribution(module: str) -> str:
    """The package to install for a module."""
    top = module.partition(".")[0]
    names = {"cv2": "opencv-python-headless", "PIL": "pillow", "pillow_heif": "pillow-heif"}
    return names.get(top, top)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _line(error: object) -> str:
    """The first line of a message, not too long."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no reason is given"
