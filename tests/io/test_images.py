"""Every format and depth decodes to the same pixels; everything else is one clear error."""

from __future__ import annotations

import io
import struct
import sys
import warnings
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, TiffImagePlugin

from reassembly.errors import InputError
from reassembly.io.images import MAX_PIXELS, is_image_name, read_image


def picture(alpha=False, height=37, width=53):
    """Smooth, so that lossy formats keep it, and different in every corner and channel."""
    y, x = np.mgrid[:height, :width]
    channels = [x * 200 // width + 20, y * 200 // height + 20, (x + y) * 100 // (width + height)]
    if alpha:
        channels.append(np.where((x - 30) ** 2 + (y - 15) ** 2 < 150, 255, 0))
    return np.dstack(channels).astype(np.uint8)


def encoded(image, kind, **options):
    file = io.BytesIO()
    if kind == "HEIF":
        import pillow_heif

        pillow_heif.from_pillow(image).save(file, **options)
    else:
        image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_header(width, height, depth=8, colour=2):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("alpha", [False, True])
def test_lossless_formats_are_exact(kind, alpha):
    wanted = picture(alpha)
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    got = read_image(encoded(Image.fromarray(wanted), kind, **options))
    np.testing.assert_array_equal(got.rgb, wanted[..., :3])
    if alpha:
        np.testing.assert_array_equal(got.alpha, wanted[..., 3])
    else:
        assert got.alpha is None


@pytest.mark.parametrize("kind", ["JPEG", "HEIF"])
def test_lossy_formats_are_close(kind):
    wanted = picture(height=64, width=96)
    got = read_image(encoded(Image.fromarray(wanted), kind, quality=95))
    assert got.rgb.shape == wanted.shape
    assert np.abs(got.rgb.astype(int) - wanted).mean() < 3


@pytest.mark.parametrize("ext", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_keep_the_upper_eight(ext, channels):
    wanted = picture(alpha=True)[..., :channels]
    low = np.random.default_rng(0).integers(0, 256, wanted.shape, dtype=np.uint16)
    deep = wanted.astype(np.uint16) * 256 + low
    stored = deep[..., 0] if channels == 1 else deep[..., [2, 1, 0, 3][:channels]]
    got = read_image(cv2.imencode(ext, np.ascontiguousarray(stored))[1].tobytes())
    expected = np.repeat(wanted, 3, axis=2) if channels == 1 else wanted[..., :3]
    np.testing.assert_array_equal(got.rgb, expected)
    if channels == 4:
        np.testing.assert_array_equal(got.alpha, wanted[..., 3])


def test_grey_with_and_without_alpha():
    rgba = picture(alpha=True)
    grey = read_image(encoded(Image.fromarray(rgba[..., 0]), "PNG"))
    assert grey.alpha is None
    np.testing.assert_array_equal(grey.rgb, np.repeat(rgba[..., :1], 3, axis=2))
    both = Image.merge("LA", [Image.fromarray(rgba[..., 0]), Image.fromarray(rgba[..., 3])])
    got = read_image(encoded(both, "PNG"))
    np.testing.assert_array_equal(got.rgb, np.repeat(rgba[..., :1], 3, axis=2))
    np.testing.assert_array_equal(got.alpha, rgba[..., 3])


def test_palettes_with_a_transparent_colour():
    mask = picture(alpha=True)[..., 3] > 0
    palette = Image.fromarray(mask.astype(np.uint8), "L").convert("P")
    palette.putpalette([9, 9, 9, 200, 100, 50])
    got = read_image(encoded(palette, "PNG", transparency=0))
    np.testing.assert_array_equal(got.alpha > 0, mask)
    assert (got.rgb[mask] == [200, 100, 50]).all()
    opaque = read_image(encoded(palette, "PNG"))
    assert opaque.alpha is None
    assert (opaque.rgb[~mask] == 9).all()


def test_one_transparent_colour_of_an_rgb_png():
    rgb = picture()
    rgb[:10] = (1, 2, 3)
    got = read_image(encoded(Image.fromarray(rgb), "PNG", transparency=(1, 2, 3)))
    np.testing.assert_array_equal(got.alpha == 0, (rgb == (1, 2, 3)).all(axis=2))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stand_upright(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    stored = Image.fromarray(picture(height=48, width=64))
    data = encoded(stored, kind, exif=exif, **options)
    stored.getexif()[0x0112] = orientation
    wanted = np.asarray(ImageOps.exif_transpose(stored))
    got = read_image(data).rgb
    assert got.shape == wanted.shape
    assert np.abs(got.astype(int) - wanted).mean() < 3


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize(
    ("dpi", "wanted"), [(300, 300), (1200, 1200), (72, None), (96, None), (1, None), (None, None)]
)
def test_dpi_where_it_means_something(kind, dpi, wanted):
    options = {"dpi": (dpi, dpi)} if dpi else {}
    got = read_image(encoded(Image.fromarray(picture()), kind, **options)).dpi
    assert got == (None if wanted is None else pytest.approx(wanted, rel=1e-3))


def test_a_camera_knows_no_scale():
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x829A] = TiffImagePlugin.IFDRational(1, 60)
    data = encoded(Image.fromarray(picture()), "JPEG", dpi=(300, 300), exif=exif)
    assert read_image(data).dpi is None


def test_pixels_that_are_not_square_tell_no_scale():
    assert read_image(encoded(Image.fromarray(picture()), "PNG", dpi=(300, 600))).dpi is None


def test_content_counts_and_not_the_name(tmp_path):
    path = tmp_path / "Stück ä 1.png"
    path.write_bytes(encoded(Image.fromarray(picture()), "TIFF"))
    np.testing.assert_array_equal(read_image(path).rgb, picture())


BOMB = png_header(60_000, 60_000) + png_chunk(b"IDAT", zlib.compress(bytes(1000)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"just some notes\n", "text"),
        ("Notizen über Stücke\n".encode(), "text"),
        (b"\x00\x01\x02\x03" * 20, "no picture"),
        (b"GIF89a" + bytes(50), "no picture"),
        (BOMB + png_chunk(b"IEND", b""), "60000 x 60000 pixels are too large"),
        (BOMB, "too large"),
        (png_header(50, 50), "PNG file is damaged or cut short"),
        (png_header(0, 50) + png_chunk(b"IEND", b""), "PNG file is damaged or cut short"),
        (b"\xff\xd8\xff\xe0", "JPEG file is damaged"),
        (b"II*\0\x08\0\0\0", "TIFF file is damaged"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "WebP file is damaged"),
        (b"\0\0\0\x18ftypheic\0\0\0\0heicmif1", "HEIC file is damaged"),
    ],
)
def test_what_is_no_picture_is_said_so(data, said):
    with pytest.raises(InputError, match=rf"^the name\.png: .*{said}"):
        read_image(data, "the name.png")


def test_large_tiff_and_webp_headers_are_refused_too():
    def tiff(width, height):
        tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1)]
        tags += [(273, 4, 8), (278, 4, height), (279, 4, 8)]
        body = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
        return b"II*\0" + struct.pack("<IH", 8, len(tags)) + body + bytes(12)

    with pytest.raises(InputError, match="too large"):
        read_image(tiff(60_000, 60_000))
    side = 16_383
    assert side * side > MAX_PIXELS
    vp8x = struct.pack("<4sI4s4sIB3x", b"RIFF", 30, b"WEBP", b"VP8X", 10, 0)
    vp8x += (side - 1).to_bytes(3, "little") * 2
    with pytest.raises(InputError):
        read_image(vp8x + b"VP8 \0\0\0\0")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "HEIF"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_file_is_never_half_a_picture(kind, share, capfd):
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    with pytest.raises(InputError, match="damaged or cut short"):
        read_image(data[: int(share * len(data))])
    assert capfd.readouterr() == ("", "")


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "TIFF", "WEBP", "HEIF"]),
    at=st.floats(0, 1, exclude_max=True),
    byte=st.integers(1, 255),
)
def test_damage_is_an_input_error_or_none_at_all(kind, at, byte):
    data = bytearray(encoded(Image.fromarray(picture(height=64, width=64)), kind))
    data[int(at * len(data))] ^= byte
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            got = read_image(bytes(data))
        except InputError:
            return
    assert got.rgb.ndim == 3 and got.rgb.dtype == np.uint8


def test_pillow_does_not_warn_about_large_or_odd_pictures(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("PNG", "JPEG"):
            assert read_image(encoded(Image.fromarray(picture()), kind)).rgb.shape == (37, 53, 3)


def test_floating_point_is_refused_with_a_remedy():
    data = encoded(Image.fromarray(picture()[..., 0].astype(np.float32)), "TIFF")
    with pytest.raises(InputError, match="8 or 16 bits"):
        read_image(data)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path / "missing.png")
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path)


def test_names_of_pictures():
    assert all(map(is_image_name, ["a.PNG", "b c.jpeg", "x.HEIC", "raw.NEF", "ä.tif"]))
    assert not any(map(is_image_name, ["a.txt", "data.json", "Thumbs.db", ".DS_Store", "png"]))


def test_a_program_without_the_decoder_says_that_it_cannot_read_the_format(monkeypatch):
    data = encoded(Image.fromarray(picture()), "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match="HEIC pictures cannot be read here"):
        read_image(data, "photo.heic")
