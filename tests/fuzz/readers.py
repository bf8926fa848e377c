"""Everything that reads what strangers wrote, as functions of bytes.

Each may raise `InputError` and nothing else, and may write into its folder and nowhere else.
Used by the tests beside it, and by `tools/fuzz.py`.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from reassembly.app.imports import import_upload, inspect_upload
from reassembly.app.worker import Task
from reassembly.config import load_config
from reassembly.errors import InputError, InputWarning
from reassembly.io.assembly_json import assembly_to_json, load_assembly
from reassembly.io.ids import read_ids
from reassembly.io.images import read_image
from reassembly.io.joins_file import read_joins
from reassembly.io.poses_csv import poses_csv, read_poses_csv
from reassembly.io.readers import find_puzzles
from reassembly.puzzle import Puzzle
from reassembly.reproduce.repair import completeness, lay_out, read_repair
from reassembly.solvers import solve
from tests.puzzles import drawn_puzzle

OBJECT = "RPobj_g1_o0001_gt_rot"
"""A puzzle's name as RePAIR has it."""


@dataclass(frozen=True)
class Reader:
    read: Callable[[bytes, Path], object]
    """Given the content of a file, and an empty folder."""
    seeds: Callable[[], list[bytes]]
    """Content that is fine, to be damaged."""


def survives(name: str, data: bytes, folder: Path) -> bool:
    """Whether the reader takes it; anything but `InputError` is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            READERS[name].read(data, folder)
        except InputError as error:
            assert "\n" not in str(error), f"more than one line: {error}"
            assert len(str(error)) < 2000, "nobody reads so much"
            return False
    return True


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@cache
def puzzle() -> Puzzle:
    return drawn_puzzle(3, seed=1, size_px=90)


@cache
def cut_out(number: int = 0) -> bytes:
    fragment = puzzle().fragments[number]
    rgba = np.dstack([fragment.image, fragment.mask.astype(np.uint8) * 255])
    content = io.BytesIO()
    Image.fromarray(rgba).save(content, "PNG")
    return content.getvalue()


# Pictures


@cache
def pictures() -> list[bytes]:
    small = Image.fromarray(puzzle().fragments[0].image).resize((24, 20))
    made = [cut_out()]
    for kind, options in (
        ("PNG", {"dpi": (300, 300)}),
        ("JPEG", {"quality": 80, "exif": _turned()}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"quality": 50}),
        *_heic(),
    ):
        content = io.BytesIO()
        small.save(content, kind, **options)
        made.append(content.getvalue())
    content = io.BytesIO()
    small.convert("P").save(content, "PNG", transparency=0)
    return [*made, content.getvalue()]


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _heic() -> list[tuple[str, dict[str, Any]]]:
    try:
        import pillow_heif
    except ImportError:
        return []
    pillow_heif.register_heif_opener()
    return [("HEIF", {"quality": 50})]


# Zips


def packed(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def data_json(**more: Any) -> bytes:
    entries = [
        {"filename": f"{k}.png", "pixel_position": [k, 2.5], "rotation": 30.0} for k in range(2)
    ]
    return json.dumps({"original_id": OBJECT, "fragments": entries, **more}).encode()


@cache
def zips() -> list[bytes]:
    two = {f"{k}.png": cut_out(k) for k in range(2)}
    return [
        packed(two),
        packed({f"a/{name}": data for name, data in two.items()}, zipfile.ZIP_STORED),
        packed(
            {f"{OBJECT}/{name}": data for name, data in {**two, "data.json": data_json()}.items()}
        ),
        packed({**two, "scale.json": b'{"mm_per_px": 0.2}', "0.png.json": b'{"mm_per_px": 1}'}),
    ]


def read_zip(data: bytes, folder: Path) -> None:
    for source in find_puzzles(written(folder, "in/sent.zip", data)):
        source.load()


def read_repair_zip(data: bytes, folder: Path) -> None:
    repair = read_repair(written(folder, "in/2D_SOLVED.zip", data))
    completeness(repair)
    lay_out(repair, folder / "out")


def read_upload(data: bytes, folder: Path) -> None:
    """As the workbench does with what was sent to it."""
    path = "sent.png" if not data.startswith(b"PK") else "sent.zip"
    written(folder, f"in/files/{path}", data)
    files = [{"index": 0, "name": path, "path": path}]
    payload: dict[str, Any] = {"folder": str(folder / "in"), "files": files}
    seen = inspect_upload(_task(payload))["files"]
    files = [{**file, **found} for file, found in zip(files, seen, strict=True)]
    settings = {"mm_per_px": 0.5, "rulers": [], "mode": "auto", "chosen": None}
    settings |= {"min_area_mm2": 1.0, "provenance": "", "job": "0" * 12}
    (folder / "images").mkdir()
    import_upload(_task({**payload, "files": files, "images": str(folder / "images"), **settings}))


def _task(payload: dict[str, Any]) -> Task:
    task = Task(payload, lambda _: None)
    task.cancelled = threading.Event()
    return task


# Tables and documents


def read_data_json(data: bytes, folder: Path) -> None:
    for k in range(2):
        written(folder, f"in/{OBJECT}/{k}.png", cut_out(k))
    written(folder, f"in/{OBJECT}/data.json", data)
    for source in find_puzzles(folder / "in"):
        source.load()
    lay_out(read_repair(folder / "in"), folder / "out")


def read_scale_json(data: bytes, folder: Path) -> None:
    written(folder, "in/0.png", cut_out())
    written(folder, "in/scale.json", data)
    written(folder, "in/0.png.json", data)
    find_puzzles(folder / "in")[0].load()


@cache
def assemblies() -> list[bytes]:
    return [assembly_to_json(solve(puzzle(), "ring")).encode()]


@cache
def tables() -> list[bytes]:
    text = poses_csv(puzzle().truth or {}, puzzle())
    semicolons = text.replace(",", ";").replace(".", ",")
    return [text.encode(), semicolons.encode("utf-16"), b"rpf\tx\ty\trot\nfragment_0\t1\t2\t3\n"]


@cache
def joins() -> list[bytes]:
    row = {"first": "fragment_0", "second": "fragment_1", "x_mm": 1.5, "y_mm": 2, "rotation_deg": 9}
    whole = {**row, "probability": 0.5, "gap_mm": 1, "overlap_mm2": 0, "contact_mm": 5}
    text = io.StringIO()
    table = csv.DictWriter(text, list(whole))
    table.writeheader()
    table.writerow(whole)
    document = {"format": "reassembly-joins", "version": 1, "puzzle": "p", "joins": [row, whole]}
    return [text.getvalue().encode(), json.dumps(document).encode()]


def configs() -> list[bytes]:
    folder = Path(__file__).resolve().parents[2] / "configs"
    return [path.read_bytes() for path in sorted(folder.glob("*.yaml"))]


def read_list(data: bytes, folder: Path) -> None:
    read_ids(str(written(folder, "in/ids.txt", data)))
    path = written(folder, "in/folds.json", data)
    read_ids(f"{path}#1,2")


# Weights


@cache
def weights() -> list[bytes]:
    import torch
    from safetensors.torch import save

    from reassembly.texture.resnet import ResNet18

    tensors = {name: value.half() for name, value in ResNet18(2).state_dict().items()}
    config = json.dumps({"width": 2, "input_px": 16})
    other = save({"a": torch.zeros(3)}, {"kind": "reassemblenet", "config": "{}"})
    return [save(tensors, {"kind": "texture", "config": config}), save(tensors), other]


def read_weights(data: bytes, folder: Path) -> None:
    from reassembly.weights import load_reassemblenet, load_texture_encoder

    path = written(folder, "in/sent.safetensors", data)
    try:
        load_reassemblenet(path)
    except InputError:
        load_texture_encoder(path)


READERS = {
    "image": Reader(lambda data, _: read_image(data), pictures),
    "zip": Reader(read_zip, zips),
    "repair": Reader(read_repair_zip, zips),
    "upload": Reader(read_upload, lambda: [*zips(), *pictures()]),
    "data-json": Reader(read_data_json, lambda: [data_json(), data_json(mm_per_px=0.5)]),
    "scale-json": Reader(
        read_scale_json, lambda: [b'{"mm_per_px": 0.1}', b'{"mm_per_px": {"0.png": 0.1}}']
    ),
    "assembly": Reader(
        lambda data, folder: load_assembly(written(folder, "in/a.json", data), puzzle()), assemblies
    ),
    "poses": Reader(
        lambda data, folder: read_poses_csv(written(folder, "in/a.csv", data), puzzle()), tables
    ),
    "joins": Reader(
        lambda data, folder: read_joins(written(folder, "in/a.csv", data), puzzle()), joins
    ),
    "config": Reader(lambda data, folder: load_config(written(folder, "in/a.yaml", data)), configs),
    "ids": Reader(read_list, lambda: [b'{"folds": [["a"], ["b", "c"]]}', b'["a"]', b"a\nb\n"]),
    "weights": Reader(read_weights, weights),
}
