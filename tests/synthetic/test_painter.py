from __future__ import annotations

import hashlib
import inspect
import time

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.synthetic.paint.canvas import Box, Canvas, Place, Ring, Run, Spot, reach
from reassembly.synthetic.painter import ELEMENTS, STYLES, paint, plan

COLOURS = ((152, 62, 44), (98, 122, 92), (74, 112, 148))
GROUND = (230, 225, 212)

PLACES: dict[str, tuple[Place, ...]] = {
    "track": (Run(15, 50, 85, 50, 14), Run(50, 85, 50, 15, 14), Ring(50, 50, 26, 12)),
    "spot": (Spot(50, 50, 50), Spot(50, 50, 40, 1.0, True)),
    "box": (Box(20, 20, 80, 80), Box(20, 30, 80, 60)),
}


def grey(picture: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)


def likeness(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two pictures of one size, without their finest grain."""
    a, b = (cv2.GaussianBlur(picture, (0, 0), 1.0).astype(float) for picture in (a, b))
    a, b = (picture - picture.mean(axis=(0, 1)) for picture in (a, b))
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def drawn(name: str, place: Place, px_per_mm: float = 3.0, seed: int = 0) -> np.ndarray:
    pixels = np.full((round(100 * px_per_mm), round(100 * px_per_mm), 3), GROUND, np.uint8)
    canvas = Canvas.of(pixels, px_per_mm, 0)
    ELEMENTS[name](canvas, place, COLOURS, np.random.default_rng(seed))
    return pixels


def places_for(name: str) -> tuple[Place, ...]:
    return PLACES[list(inspect.signature(ELEMENTS[name]).parameters)[1]]


def test_the_same_arguments_give_the_same_bytes() -> None:
    paint(90, 140, seed=5)
    for seed in range(3):
        first = paint(200, 120, seed=seed, mm_per_px=0.9)
        assert np.array_equal(first, paint(200, 120, seed=seed, mm_per_px=0.9))


def test_different_seeds_give_clearly_different_pictures() -> None:
    pictures = [paint(128, seed=seed).astype(float) for seed in range(12)]
    for k, a in enumerate(pictures):
        for b in pictures[:k]:
            assert np.abs(a - b).mean() > 8


@pytest.mark.parametrize(
    ("width", "height"), [(64, 64), (16, 16), (17, 333), (1001, 77), (1500, 40), (40, 1200)]
)
@pytest.mark.parametrize("style", STYLES)
def test_every_size_and_aspect_is_painted(width: int, height: int, style: str) -> None:
    picture = paint(width, height, seed=3, style=style)
    assert picture.shape == (height, width, 3)
    assert picture.dtype == np.uint8
    assert picture.flags["C_CONTIGUOUS"]
    assert grey(picture).std() > 6


@settings(max_examples=25, deadline=None)
@given(
    width=st.integers(16, 220),
    height=st.integers(16, 220),
    seed=st.integers(0, 2**63),
    mm_per_px=st.floats(0.01, 5),
)
def test_any_arguments_give_a_picture(width: int, height: int, seed: int, mm_per_px: float) -> None:
    picture = paint(width, height, seed=seed, mm_per_px=mm_per_px)
    assert picture.shape == (height, width, 3)
    assert grey(picture).std() > 3


def test_a_square_is_painted_when_no_height_is_given() -> None:
    assert np.array_equal(paint(96, seed=1), paint(96, 96, seed=1))


@pytest.mark.parametrize("style", STYLES)
def test_a_wall_looks_the_same_at_any_resolution(style: str) -> None:
    for seed in range(3):
        coarse = paint(300, 240, seed=seed, mm_per_px=0.7, style=style)
        fine = paint(600, 480, seed=seed, mm_per_px=0.35, style=style)
        shrunk = cv2.resize(fine, (300, 240), interpolation=cv2.INTER_AREA)
        assert likeness(coarse, shrunk) > 0.93
        other = paint(300, 240, seed=seed + 50, mm_per_px=0.7, style=style)
        assert likeness(coarse, other) < 0.8


def test_bands_and_borders_have_their_natural_width() -> None:
    widths = [
        element.place.width
        for seed in range(60)
        for element in plan(210, 210, seed=seed).elements
        if element.name in ("meander", "wave", "guilloche", "tendril", "ribbon")
        and isinstance(element.place, Run)
    ]
    assert np.quantile(widths, 0.05) > 7
    assert 11 < np.median(widths) < 30
    assert max(widths) < 80


def test_ornaments_do_not_grow_with_the_picture_as_fast_as_the_picture() -> None:
    def median_width(side_mm: float) -> float:
        plans = [plan(side_mm, side_mm, seed=seed, style="third") for seed in range(20)]
        return float(
            np.median(
                [e.place.width for p in plans for e in p.elements if isinstance(e.place, Run)]
            )
        )

    assert 1.3 < median_width(800) / median_width(200) < 3.5


def test_no_picture_is_blank_and_colours_vary() -> None:
    edges, colours, spread = [], [], []
    for seed in range(30):
        picture = paint(256, seed=seed, mm_per_px=0.8)
        smooth = cv2.GaussianBlur(grey(picture), (0, 0), 1.2)
        edges.append(cv2.Canny(smooth, 30, 80).mean() / 255)
        counts = np.unique((picture // 24).reshape(-1, 3), axis=0, return_counts=True)[1]
        colours.append((counts > 30).sum())
        spread.append(smooth.std())
    assert min(edges) > 0.025
    assert np.median(edges) > 0.08
    assert min(colours) >= 20
    assert min(spread) > 15


def test_much_of_the_material_is_pale() -> None:
    pale = [np.median(grey(paint(96, seed=seed))) > 150 for seed in range(40)]
    assert 0.3 < np.mean(pale) < 0.9


def test_every_ornament_is_used_within_two_hundred_pictures() -> None:
    plans = [plan(205, 205, seed=seed) for seed in range(200)]
    assert {p.style for p in plans} == STYLES.keys() - {"lattice"}
    plans += [plan(205, 205, seed=seed, style="lattice") for seed in range(60)]
    assert frozenset().union(*(p.names for p in plans)) == ELEMENTS.keys()


def test_a_lattice_is_painted_only_where_it_is_asked_for() -> None:
    """A style that was added later leaves the walls of every seed as they were."""
    assert list(STYLES)[-1] == "lattice" and STYLES["lattice"] == 0
    earlier = {name: share for name, share in STYLES.items() if name != "lattice"}
    for seed in range(300):
        now, then = (np.random.default_rng([seed, 1]) for _ in range(2))
        style = now.choice(list(STYLES), p=list(STYLES.values()))
        assert style == then.choice(list(earlier), p=list(earlier.values()))
        assert now.random() == then.random()
    wall = hashlib.sha256(repr(plan(205, 205, seed=7)).encode()).hexdigest()
    assert wall[:16] == "02a47c6212a00139"


def test_a_lattice_shows_braids_flowers_and_dotted_frames_on_much_empty_ground() -> None:
    plans = [plan(330, 330, seed=seed, style="lattice") for seed in range(40)]
    shares = {
        name: np.mean([name in p.names for p in plans])
        for name in ("braid", "twist", "plait", "berries", "buds", "blossom", "blot", "foliage")
    }
    assert all(share > 0.03 for share in shares.values())
    assert shares["blossom"] > 0.7 and shares["blot"] > 0.6
    braids = [
        e.place.width
        for p in plans
        for e in p.elements
        if e.name in ("braid", "twist", "plait") and isinstance(e.place, Run)
    ]
    assert min(braids) > 15 and max(braids) < 50
    bare = []
    for seed in range(8):
        picture = paint(256, seed=seed, mm_per_px=1.3, style="lattice").astype(int)
        ground = np.median(picture.reshape(-1, 3), axis=0)
        bare.append((np.abs(picture - ground).max(axis=2) < 40).mean())
    assert np.median(bare) > 0.7


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_ornament_is_drawn_where_it_belongs(name: str) -> None:
    for place in places_for(name):
        changed = np.abs(drawn(name, place).astype(int) - GROUND).max(axis=2) > 12
        assert changed.mean() > 0.003
        ys, xs = (indices / 3 for indices in np.nonzero(changed))
        room = reach(place)
        assert xs.min() > room.x0 and xs.max() < room.x1
        assert ys.min() > room.y0 and ys.max() < room.y1


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_ornament_is_the_same_at_any_resolution(name: str) -> None:
    for place in places_for(name):
        fine = cv2.resize(drawn(name, place, 6.0), (300, 300), interpolation=cv2.INTER_AREA)
        assert likeness(drawn(name, place, 3.0), fine) > 0.9


def test_a_meander_repeats_along_its_run() -> None:
    """Its period is known from the band, so a strip moved by one period matches itself."""
    run = Run(10, 50, 90, 50, 16)
    strip = grey(drawn("meander", run, 6.0))[6 * 42 : 6 * 58].astype(float)
    _, period = run.cells(1.2)
    shift = round(period * 6)
    moved = np.corrcoef(strip[:, 90:400].ravel(), strip[:, 90 + shift : 400 + shift].ravel())[0, 1]
    half = shift // 2
    between = np.corrcoef(strip[:, 90:400].ravel(), strip[:, 90 + half : 400 + half].ravel())[0, 1]
    assert moved > 0.75
    assert moved > between + 0.4


def test_a_figure_can_be_mirrored() -> None:
    straight = drawn("dolphin", Spot(50, 50, 60))
    mirrored = drawn("dolphin", Spot(50, 50, 60, 0.0, True))
    assert likeness(straight[:, ::-1], mirrored) > 0.95
    assert likeness(straight, mirrored) < 0.8


def test_nothing_is_drawn_outside_a_window() -> None:
    pixels = np.full((200, 200, 3), GROUND, np.uint8)
    inside = Canvas.of(pixels, 2.0, 0).window(Box(30, 30, 60, 70))
    ELEMENTS["rosette"](inside, Spot(45, 50, 80), COLOURS, np.random.default_rng(0))
    changed = (pixels != np.array(GROUND, np.uint8)).any(axis=2)
    assert changed[60:140, 60:120].mean() > 0.5
    changed[60:140, 60:120] = False
    assert not changed.any()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match=r"baroque.*first, second, third"):
        paint(64, seed=0, style="baroque")
    with pytest.raises(InputError, match="8 x 64 px"):
        paint(8, 64, seed=0)
    with pytest.raises(InputError, match="seed is -1"):
        paint(64, seed=-1)
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="mm_per_px"):
            paint(64, seed=0, mm_per_px=scale)


def test_two_thousand_pixels_take_well_under_two_seconds_of_one_core() -> None:
    paint(64, seed=0)
    seconds = []
    for seed in range(3):
        begun = time.process_time()
        paint(2000, seed=seed)
        seconds.append(time.process_time() - begun)
    assert min(seconds) < 2
