"""Pictures from files: any common format to 8-bit RGB, upright, or one clear error."""

from __future__ import annotations

import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reassembly.errors import InputError

__all__ = ["MAX_PIXELS", "READABLE_SUFFIXES", "Picture", "is_image_name", "read_image"]

MAX_PIXELS = 250_000_000
"""Larger pictures are refused before anything is decoded. The largest phone cameras give 200
million; decoded, this many pixels take 1 GB."""
MAX_FILE_BYTES = 2 << 30
LARGE_PIXELS = 50_000_000
"""Pictures above this are decoded one at a time, however many threads read."""
READABLE_SUFFIXES = frozenset({".heic", ".heif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
OTHER_IMAGE_SUFFIXES = frozenset(
    {".arw", ".avif", ".bmp", ".cr2", ".cr3", ".dng", ".gif", ".jp2", ".jxl", ".nef", ".orf"}
    | {".pef", ".psd", ".raf", ".rw2", ".svg"}
)
"""Pictures that we cannot read: passing over them in silence would lose a fragment."""
SAVE_AS = "Save it again as PNG, JPEG, TIFF or WebP"
MEANINGLESS_DPI = (72, 96)
"""What software writes when it knows nothing."""
ORIENTATION_TAG, EXIF_IFD_TAG = 0x0112, 0x8769
CAMERA_TAGS = (0x829A, 0x829D, 0x920A)
"""Exposure time, aperture, focal length: a camera took this, and no camera knows its scale."""

_pillow_lock, _large_lock = threading.Lock(), threading.Lock()


class Picture(NamedTuple):
    """A decoded file."""

    rgb: NDArray[np.uint8]
    """(H, W, 3)."""
    alpha: NDArray[np.uint8] | None
    """(H, W), 255 where opaque; None where the file has none."""
    dpi: float | None
    """Pixels an inch, where the file says so and means it: 72 and 96 dpi and values up to 1 are
    defaults of software, and a camera's figure is none of a length on the object."""


def is_image_name(name: str) -> bool:
    """Whether a file of this name claims to be a picture, readable here or not."""
    return Path(name).suffix.lower() in READABLE_SUFFIXES | OTHER_IMAGE_SUFFIXES


def read_image(
    source: str | PathLike[str] | bytes, name: str | PathLike[str] | None = None
) -> Picture:
    """Decodes a PNG, JPEG, TIFF, WebP or HEIC picture and turns it upright as its EXIF data say.

    16-bit channels keep their upper 8 bits. Of several frames or pages the first is read.

    Args:
        source: a file, or its content.
        name: how error messages call it; by default the path.
    """
    data = source if isinstance(source, bytes) else _read_bytes(Path(source))
    label = name or ("the picture" if isinstance(source, bytes) else source)
    kind = _kind(data, label)
    try:
        with _quiet_pillow():
            image = _open(data, kind)
            width, height = image.size
        if width * height > MAX_PIXELS:
            raise _too_large(width, height, label)
        with _large_lock if width * height > LARGE_PIXELS else nullcontext():
            array, dpi, orientation = _decode(image, data, kind)
            return _picture(array, dpi, orientation)
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(0, 0, label) from error
    except MemoryError as error:
        what = "there is not enough memory to read this picture"
        raise InputError(what, "Scale it down, or close other programs", label) from error
    except _FloatingPointError as error:
        what = "pictures in floating point cannot be read"
        raise InputError(what, "Save it again with 8 or 16 bits a channel", label) from error
    except ImportError as error:  # Programs made of this package may leave the decoder out.
        raise InputError(f"{kind} pictures cannot be read here", SAVE_AS, label) from error
    # What a decoder raises on broken data is not limited to any set of types.
    except Exception as error:
        what = f"this {kind} file is damaged or cut short"
        raise InputError(what, "Copy or export it again", label) from error


def _read_bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            what = f"this file is larger than {MAX_FILE_BYTES >> 30} GB"
            raise InputError(what, "Scale the picture down", path)
        return path.read_bytes()
    except OSError as error:
        what = f"this file cannot be read ({error.strerror or error})"
        raise InputError(what, "Check the path and its permissions", path) from error


def _kind(data: bytes, label: str | PathLike[str]) -> str:
    """The format by its first bytes; names lie."""
    if not data:
        raise InputError("this file is empty", "Copy or export it again", label)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "TIFF"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    heic = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
    if data[4:8] == b"ftyp" and data[8:12] in heic:
        return "HEIC"
    start = data[:512]
    if all(byte >= 32 or byte in b"\t\n\r\f" for byte in start):
        raise InputError("this file is text, not a picture", "Remove it, or export it again", label)
    raise InputError("this is no picture in a format that can be read", SAVE_AS, label)


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    """Keeps Pillow's warnings to itself. One thread at a time, as warning filters are global."""
    with _pillow_lock, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL|pillow_heif")
        yield


def _open(data: bytes, kind: str) -> Image.Image:
    """The picture's header. The decoders are named here, and not found by Pillow, so that no
    other is ever reached, and so that sizes are judged by us alone."""
    file: Any = BytesIO(data)
    if kind == "PNG":
        from PIL.PngImagePlugin import PngImageFile

        return PngImageFile(file)
    if kind == "JPEG":
        from PIL.JpegImagePlugin import JpegImageFile

        return JpegImageFile(file)
    if kind == "TIFF":
        from PIL.TiffImagePlugin import TiffImageFile

        return TiffImageFile(file)
    if kind == "WebP":
        from PIL.WebPImagePlugin import WebPImageFile

        return WebPImageFile(file)
    import pillow_heif

    heif: Any = pillow_heif.HeifImageFile
    image: Image.Image = heif(file)
    return image


class _FloatingPointError(Exception):
    """The picture holds no integers."""


def _decode(
    image: Image.Image, data: bytes, kind: str
) -> tuple[NDArray[np.uint8], float | None, int]:
    """(H, W, 3) or (H, W, 4) as stored, the dpi, and the EXIF orientation still to be applied."""
    plain = image.mode in {"RGB", "RGBA", "L", "LA", "I", "I;16"}
    animated = getattr(image, "is_animated", False)
    if kind == "PNG" and plain and not animated and "transparency" not in image.info:
        # Much faster than Pillow, and the only decoder here that lets other threads run.
        exif = Image.Exif()
        with _quiet_pillow():
            exif.load(_png_exif(data))
        return _decode_png(data), _dpi(image, exif), _orientation(exif)
    with _quiet_pillow():
        image.load()
        # Asked for after loading, since some decoders turn the picture and drop the tag.
        exif = image.getexif()
        return _pillow_array(image), _dpi(image, exif), _orientation(exif)


def _decode_png(data: bytes) -> NDArray[np.uint8]:
    array: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if array is None:
        raise ValueError("the PNG data cannot be decoded")
    if array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    if array.ndim == 2:
        return np.asarray(cv2.cvtColor(array, cv2.COLOR_GRAY2RGB), np.uint8)
    code = cv2.COLOR_BGRA2RGBA if array.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return np.asarray(cv2.cvtColor(array, code), np.uint8)


def _png_exif(data: bytes) -> bytes:
    """The EXIF data of a PNG file, or nothing.

    Raises ValueError unless every chunk is whole, since OpenCV complains about that on standard
    error, and some of its versions hand out what there is of a truncated picture.
    """
    view, at, exif = memoryview(data), 8, b""
    while True:
        if at + 12 > len(data):
            raise ValueError("the PNG data end early")
        (length,), name = struct.unpack_from(">I", data, at), data[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(data) or zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(
            view[end - 4 : end], "big"
        ):
            raise ValueError("a part of the PNG data is damaged")
        if name == b"eXIf":
            exif = data[at + 8 : end - 4]
        if name == b"IEND":
            return exif
        at = end


def _pillow_array(image: Image.Image) -> NDArray[np.uint8]:
    """(H, W, 3) or, where the picture has any transparency, (H, W, 4)."""
    if image.mode == "F":
        raise _FloatingPointError
    if image.mode.startswith("I"):
        upper = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
        return np.repeat(upper[..., None], 3, axis=2)
    if image.mode in {"LA", "La", "PA", "RGBA", "RGBa"} or "transparency" in image.info:
        return np.asarray(image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def _dpi(image: Image.Image, exif: Image.Exif) -> float | None:
    try:
        x, y = (float(value) for value in image.info["dpi"])
        camera = any(tag in exif.get_ifd(EXIF_IFD_TAG) for tag in CAMERA_TAGS)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    plausible = 1 < x < 100_000 and abs(x - y) <= 0.01 * x
    if camera or not plausible or any(abs(x - d) < 0.1 for d in MEANINGLESS_DPI):
        return None
    return x


def _orientation(exif: Image.Exif) -> int:
    value = exif.get(ORIENTATION_TAG, 1)
    return value if value in range(1, 9) else 1


def _picture(array: NDArray[np.uint8], dpi: float | None, orientation: int) -> Picture:
    """Upright, with colour and alpha apart."""
    if orientation in (2, 3):
        array = array[:, ::-1]
    if orientation in (3, 4):
        array = array[::-1]
    if orientation in (5, 6, 7, 8):
        array = array.transpose(1, 0, 2)
    if orientation in (6, 7):
        array = array[:, ::-1]
    if orientation in (7, 8):
        array = array[::-1]
    array = np.ascontiguousarray(array)
    if array.shape[2] == 3:
        return Picture(array, None, dpi)
    rgb: Any = cv2.cvtColor(array, cv2.COLOR_RGBA2RGB)
    alpha: Any = cv2.extractChannel(array, 3)
    return Picture(rgb, alpha, dpi)


def _too_large(width: int, height: int, label: str | PathLike[str]) -> InputError:
    size = f"{width} x {height} pixels are" if width else "this picture is"
    limit = f"(at most {MAX_PIXELS // 1_000_000} million pixels)"
    return InputError(f"{size} too large {limit}", "Scale the picture down", label)
