"""Pieces are found on grounds of any colour, in uneven light, through shadow, noise and JPEG."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from reassembly.errors import InputError
from reassembly.io.segment import find_pieces, reading_order, segment_many, segment_single

GROUNDS = {
    "white": (245, 245, 245),
    "black": (15, 15, 15),
    "grey": (150, 150, 150),
    "green": (60, 150, 70),
    "blue": (40, 70, 160),
}
PIECES = {
    "plaster": ((228, 218, 202), False),
    "painted": ((205, 185, 160), True),
    "red": ((150, 45, 35), True),
    "dark": ((60, 50, 45), False),
}


def shape(rng, size, radius=0.3, holes=1):
    """How much of each pixel an irregular, eroded-looking piece covers."""
    fine = 4 * size
    angle = np.linspace(0, math.tau, 720, endpoint=False)
    reach = np.ones_like(angle)
    for k in range(2, 40):
        reach += rng.normal(0, 0.16 / k) * np.sin(k * angle + rng.uniform(0, math.tau))
    reach = np.clip(reach, 0.5, 1.4) * radius * fine
    points = fine / 2 + np.column_stack([reach * np.cos(angle), reach * np.sin(angle)])
    mask = np.zeros((fine, fine), np.uint8)
    cv2.fillPoly(mask, [points.astype(np.int32)], 255)
    for _ in range(holes):
        x, y = fine / 2 + rng.uniform(-0.08, 0.08, 2) * fine
        cv2.circle(mask, (int(x), int(y)), int(0.045 * fine), 0, -1)
    return cv2.resize(mask, (size, size), interpolation=cv2.INTER_AREA).astype(np.float32) / 255


def surface(rng, size, colour, painted):
    surface = np.full((size, size, 3), colour, np.float32)
    for cells, strength in ((8, 6), (40, 6), (size // 2, 7)):
        noise = rng.normal(0, strength, (cells, cells)).astype(np.float32)
        surface += cv2.resize(noise, (size, size), interpolation=cv2.INTER_CUBIC)[..., None]
    for _ in range(4 if painted else 0):
        a, b = rng.integers(0, size, (2, 2)).tolist()
        stroke = [float(rng.integers(*limits)) for limits in ((120, 210), (20, 110), (20, 110))]
        cv2.line(surface, a, b, stroke, int(size * rng.uniform(0.02, 0.1)))
    return np.clip(surface, 0, 255)


def photograph(
    rng,
    ground,
    colour,
    painted=False,
    *,
    covered=None,
    size=640,
    noise=2.0,
    gradient=0.25,
    vignette=0.15,
    shadow=0.4,
    shadow_blur=9.0,
    blur=0.6,
    quality=85,
):
    """A picture as a camera would take it, and the true mask."""
    covered = shape(rng, size) if covered is None else covered
    size = len(covered)
    y, x = np.mgrid[:size, :size] / size - 0.5
    angle = rng.uniform(0, math.tau)
    slope = x * math.cos(angle) + y * math.sin(angle)
    light = 1 - gradient / 2 + gradient * slope - 2 * vignette * (x * x + y * y)
    shift = size // 50
    shade = cv2.GaussianBlur(np.roll(covered, (shift, shift), (0, 1)), (0, 0), shadow_blur)

    def linear(values):
        return (np.asarray(values, np.float32) / 255) ** 2.2

    below = linear(np.full((size, size, 3), ground)) * (1 - shadow * shade)[..., None]
    above = linear(surface(rng, size, colour, painted))
    mixed = (below + covered[..., None] * (above - below)) * light[..., None]
    picture = 255 * np.clip(mixed, 0, 1) ** (1 / 2.2)
    picture = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), blur)
    picture = np.clip(picture + rng.normal(0, noise, picture.shape), 0, 255).astype(np.uint8)
    data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1]), covered > 0.5


def overlap(a, b):
    return (a & b).sum() / (a | b).sum()


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("ground", GROUNDS)
def test_pieces_on_many_grounds_in_uneven_light_with_shadow(ground, piece):
    rng = np.random.default_rng([len(ground), len(piece)])
    picture, truth = photograph(rng, GROUNDS[ground], *PIECES[piece])
    assert overlap(segment_single(picture), truth) >= 0.97


@pytest.mark.parametrize("ground", ["white", "grey", "blue"])
def test_a_rough_ground(ground):
    rng = np.random.default_rng(1)
    picture, truth = photograph(rng, GROUNDS[ground], *PIECES["painted"], noise=10.0)
    assert overlap(segment_single(picture), truth) >= 0.97


@pytest.mark.parametrize(("shadow", "shadow_blur"), [(0.4, 4.0), (0.6, 18.0)])
def test_shadows_narrow_and_deep(shadow, shadow_blur):
    rng = np.random.default_rng(2)
    covered = shape(rng, 640, holes=0)
    picture, truth = photograph(
        rng,
        GROUNDS["white"],
        *PIECES["plaster"],
        covered=covered,
        shadow=shadow,
        shadow_blur=shadow_blur,
    )
    assert overlap(segment_single(picture), truth) >= 0.97


def test_the_outline_runs_through_the_middle_of_the_edge():
    """A bias of one pixel would be one in a hundred of the area here."""
    for ground, colour in (("white", (120, 60, 50)), ("black", (200, 190, 180))):
        rng = np.random.default_rng(3)
        picture, truth = photograph(rng, GROUNDS[ground], colour, shadow=0, noise=1.0)
        assert segment_single(picture).sum() == pytest.approx(truth.sum(), rel=0.004)


def test_a_large_picture_is_outlined_at_its_own_resolution():
    rng = np.random.default_rng(4)
    picture, truth = photograph(
        rng, GROUNDS["grey"], *PIECES["red"], size=2000, shadow_blur=25.0, blur=1.0
    )
    assert overlap(segment_single(picture), truth) >= 0.99


def test_holes_show_the_ground_and_paint_of_its_hue_does_not():
    rng = np.random.default_rng(5)
    picture, truth = photograph(rng, GROUNDS["green"], *PIECES["plaster"], shadow=0.5)
    mask = segment_single(picture)
    count, labels = cv2.connectedComponents((~truth).astype(np.uint8), connectivity=4)
    assert count == 3
    for part in (1, 2):
        assert mask[labels == part].mean() < 0.1
    solid, truth = photograph(
        rng, GROUNDS["white"], (150, 60, 50), covered=shape(rng, 640, holes=0), shadow=0
    )
    solid[300:330, 300:360] = (120, 118, 119)  # A neutral grey, as a shadow's would be.
    assert overlap(segment_single(solid), truth) >= 0.97


def tray(rng, rows=3, columns=3, cell=300):
    covered = np.zeros((rows * cell, columns * cell), np.float32)
    for r in range(rows):
        for c in range(columns):
            piece = shape(rng, cell, radius=rng.uniform(0.2, 0.33), holes=0)
            covered[r * cell : (r + 1) * cell, c * cell : (c + 1) * cell] = piece
    return covered


def test_a_tray_gives_every_piece_once_in_reading_order():
    rng = np.random.default_rng(6)
    covered = tray(rng)
    picture, truth = photograph(rng, GROUNDS["blue"], *PIECES["plaster"], covered=covered)
    crumbs = [(150, 298), (302, 600)]
    for x, y in crumbs:
        cv2.circle(picture, (x, y), 4, (200, 190, 180), -1)
    pieces = segment_many(picture, min_area_px=400)
    cells = [(p.top // 300, p.left // 300) for p in pieces]
    assert cells == [(r, c) for r in range(3) for c in range(3)]
    for piece, (r, c) in zip(pieces, cells, strict=True):
        alone = np.zeros_like(truth)
        alone[r * 300 : (r + 1) * 300, c * 300 : (c + 1) * 300] = True
        found = np.zeros_like(truth)
        height, width = piece.mask.shape
        found[piece.top : piece.top + height, piece.left : piece.left + width] = piece.mask
        assert overlap(found, truth & alone) >= 0.97
        assert piece.doubts() == []


def on_table(rng, picture, corners, table=(70, 58, 48)):
    """A square sheet seen on a darker table, its corners at these, and the matrix there."""
    size = len(picture)
    square = np.float32([(0, 0), (size, 0), (size, size), (0, size)])
    matrix = cv2.getPerspectiveTransform(square, np.float32(corners))
    extent = (1200, 1100)
    seen = cv2.warpPerspective(picture, matrix, extent, flags=cv2.INTER_AREA)
    sheet = cv2.warpPerspective(np.full((size, size), 255, np.uint8), matrix, extent) / 255
    ground = np.full(seen.shape, table) + rng.normal(0, 2, seen.shape)
    mixed = np.where(sheet[..., None] > 0.5, seen, np.clip(ground, 0, 255))
    return cv2.GaussianBlur(mixed.astype(np.uint8), (0, 0), 0.7), matrix


SHEETS = {
    "straight": [(100, 60), (1100, 60), (1100, 1060), (100, 1060)],
    "tilted": [(200, 60), (1000, 60), (1150, 1040), (50, 1040)],
    "turned": [(260, 30), (1150, 200), (1000, 1070), (90, 930)],
}


@pytest.mark.parametrize("colour", ["painted", "table"])
@pytest.mark.parametrize("corners", SHEETS)
def test_a_sheet_on_a_table_is_the_ground(corners, colour):
    rng = np.random.default_rng(9)
    covered = tray(rng)
    piece = PIECES.get(colour, ((70, 58, 48), False))
    picture, truth = photograph(rng, GROUNDS["grey"], *piece, covered=covered)
    seen, matrix = on_table(rng, picture, SHEETS[corners])
    pieces = segment_many(seen, min_area_px=400)
    assert len(pieces) == 9
    found = np.zeros(seen.shape[:2], bool)
    for piece in pieces:
        height, width = piece.mask.shape
        found[piece.top : piece.top + height, piece.left : piece.left + width] |= piece.mask
        assert piece.doubts() == []
    wanted = cv2.warpPerspective(truth.astype(np.float32), matrix, found.shape[::-1]) > 0.5
    assert overlap(found, wanted) >= 0.96
    assert segment_single(seen).sum() == max(piece.area_px for piece in find_pieces(seen))


@pytest.mark.parametrize("painted", [False, True])
def test_a_piece_with_straight_sides_stays_one_and_is_doubted(painted):
    rng = np.random.default_rng(10)
    tile = surface(rng, 900, (190, 120, 90), painted)
    tile = tile + rng.normal(0, 2, tile.shape)
    cv2.circle(tile, (450, 400), 12, (120, 70, 50), -1)  # A chip.
    seen, _ = on_table(rng, np.clip(tile, 0, 255).astype(np.uint8), SHEETS["straight"])
    (piece,) = segment_many(seen)
    assert piece.area_px == pytest.approx(1000 * 1000, rel=0.01)
    (doubt,) = piece.doubts()
    assert "four straight sides" in doubt


def test_a_piece_over_the_edge_of_its_sheet_is_doubted():
    rng = np.random.default_rng(11)
    picture, _ = photograph(rng, GROUNDS["white"], *PIECES["red"], covered=tray(rng))
    picture[400:460, :30] = (150, 60, 50)
    seen, _ = on_table(rng, picture, SHEETS["straight"])
    pieces = segment_many(seen, min_area_px=400)
    assert [any("edge of its sheet" in d for d in p.doubts()) for p in pieces].count(True) == 1
    assert len(pieces) == 10


def test_a_pale_rectangle_is_a_piece():
    picture = np.full((300, 400, 3), 245, np.uint8)
    picture[100:200, 120:260] = 225
    assert segment_single(picture).sum() == pytest.approx(100 * 140, rel=0.03)


def test_reading_order_of_uneven_rows():
    boxes = [
        (50, 10, 90, 60),
        (0, 0, 40, 30),
        (100, 30, 130, 55),
        (10, 70, 30, 90),
        (60, 65, 80, 99),
    ]
    assert reading_order(boxes) == [1, 0, 2, 3, 4]


@pytest.mark.parametrize("seed", range(3))
def test_a_picture_full_of_detail_has_no_ground(seed):
    rng = np.random.default_rng(seed)
    cells = rng.uniform(0, 255, (9, 9, 3)).astype(np.float32)
    smooth = cv2.resize(cells, (300, 300), interpolation=cv2.INTER_CUBIC)
    for picture in (smooth, rng.uniform(0, 255, (300, 300, 3))):
        with pytest.raises(InputError, match=r"a\.png: there is no plain ground"):
            segment_single(np.clip(picture, 0, 255).astype(np.uint8), "a.png")


def test_a_bare_ground_has_no_piece():
    rng = np.random.default_rng(0)
    ramp = np.linspace(90, 200, 400)[:, None, None] + np.zeros((400, 500, 3))
    for picture in (np.full((200, 200, 3), 255.0), ramp, ramp + rng.normal(0, 8, ramp.shape)):
        with pytest.raises(InputError, match="no piece stands out"):
            segment_single(np.clip(picture, 0, 255).astype(np.uint8))
    with pytest.raises(InputError):
        segment_single(np.zeros((3, 3, 3), np.uint8))


def largest(picture):
    return max(find_pieces(picture), key=lambda piece: piece.area_px)


def test_doubts_are_told_and_only_then():
    rng = np.random.default_rng(7)
    ground, colours = GROUNDS["white"], PIECES["painted"]
    picture, _ = photograph(rng, ground, *colours)
    assert largest(picture).doubts() == []
    cut = np.ascontiguousarray(picture[:, 250:])
    assert any("touches the picture's border" in doubt for doubt in largest(cut).doubts())
    blurred, _ = photograph(rng, ground, *colours, blur=5.0)
    assert any("blurred" in doubt for doubt in largest(blurred).doubts())
    faint, _ = photograph(rng, (150, 150, 150), (146, 146, 146), noise=1.0, shadow=0, gradient=0)
    assert any("hardly stands out" in doubt for doubt in largest(faint).doubts())


@pytest.mark.parametrize("ground", ["white", "black", "green"])
def test_sharpness_does_not_depend_on_the_ground(ground):
    rng = np.random.default_rng(8)
    sharp, _ = photograph(rng, GROUNDS[ground], *PIECES["painted"])
    soft, _ = photograph(rng, GROUNDS[ground], *PIECES["painted"], blur=4.0)
    assert largest(sharp).edge_px < 4 < 6.5 < largest(soft).edge_px
