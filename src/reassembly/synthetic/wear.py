"""What time does to the pieces of a broken fresco: loss along the breaks, chips, saws, flakes.

A piece is worn as a field that is positive where material remains and falls off about linearly,
in pixels, towards its edge; the edge is where the field crosses 0. That keeps edges exact to a
fraction of a pixel when a piece is turned later. Everything here works in the frame of the
picture, on a window around one piece.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.pose import Pose
from reassembly.synthetic.arrays import Bytes, Floats, Points
from reassembly.synthetic.noise import rough_field, smooth_field

__all__ = [
    "PAPER",
    "PRISTINE",
    "REALISTIC",
    "WearSettings",
    "damage_paint",
    "disturbance",
    "loss_field",
    "tick_marks",
    "veil_paint",
    "wear_piece",
]

EDGE_BLUR_PX = 0.7
"""Blur that turns a mask's staircase into a straight edge without moving it."""
GRAIN = 0.25
"""How much of the paint's own variation shows in what covers it."""
FLAKE_RAGGED = 0.4
"""Roughness of the inner edge of flaked patches, relative to their depth."""
LEAST_LEFT = 0.4
"""Share of a piece that wear leaves at least; harsher wear is halved."""


@dataclass(frozen=True)
class WearSettings:
    """How pieces are worn. Lengths are mm; pairs are the lowest and highest value drawn."""

    erosion_steps: tuple[int, int] = (0, 0)
    """How often a piece is eroded by a 3x3 square, drawn per piece."""
    erosion_step_mm: float = 0.24
    """What one such erosion takes off: one pixel at the default scale."""
    turn_deg: float = 0.0
    """A piece lies up to this much turned in the solved puzzle, or else shifted: one of the two."""
    shift_mm: float = 0.0
    """How far it is shifted along each axis, at most."""

    loss_mm: float = 0.0
    """Median depth of material lost along a break, on each of its two sides."""
    loss_spread: float = 0.0
    """Standard deviation of the logarithm of that depth, along a break and from break to break."""
    loss_most_mm: float = 8.0
    """Loss is nowhere deeper than this."""
    loss_wavelength_mm: float = 60.0
    """How quickly the depth changes along a break."""
    loss_shared: float = 0.5
    """Share of that variation which the two sides of a break have in common, from 0 to 1."""
    loss_roughness_mm: float = 0.0
    """Root mean square of the fine roughness which each side gets on its own."""
    loss_roughness_longest_mm: float = 8.0
    """Longest wavelength of that roughness."""
    loss_roughness_exponent: float = 1.0
    """How fast its amplitude falls towards short wavelengths."""

    rounding_mm: tuple[float, float] = (0.0, 0.0)
    """Radius to which a piece's corners are rounded."""
    chip_probability: float = 0.0
    """Probability that a corner is chipped off."""
    chip_mm: tuple[float, float] = (0.0, 0.0)
    """How deep a chip reaches, from the corner inwards."""
    sawn_probability: float = 0.0
    """Probability that one edge of a piece is sawn straight."""
    sawn_mm: tuple[float, float] = (0.0, 0.0)
    """How far inside the edge's chord the saw ran."""

    flake_share: float = 0.0
    """Share of the rim along which paint has flaked off, from 0 to 1."""
    flake_mm: float = 0.0
    """How far inwards flaked patches reach, typically."""
    flake_colour: tuple[int, int, int] = (214, 208, 196)
    """RGB of the plaster under the paint."""
    stain_mm: float = 0.0
    """How far dirt has crept inwards from the break, typically."""
    stain_strength: float = 0.0
    """How much of the paint's colour dirt hides at the very rim, from 0 to 1."""
    stain_colour: tuple[int, int, int] = (172, 156, 134)
    """RGB of the dirt."""

    veil: tuple[float, float] = (0.0, 0.0)
    """How much of the paint's colour fading and a film of lime hide everywhere, from 0 to 1, drawn
    per fresco."""
    veil_colour: tuple[int, int, int] = (156, 158, 161)
    """RGB of that film."""

    missing: tuple[float, float] = (0.0, 0.0)
    """Share of the pieces that are lost, drawn per puzzle. Those left hang together."""
    strays: tuple[float, ...] = (1.0,)
    """Probability that 0, 1, 2, ... pieces of another fresco are among the pieces."""

    ticks_probability: float = 0.0
    """Probability that conservators drew tick marks across this puzzle's joins."""
    ticks_share: float = 0.7
    """Share of the joins that are marked in such a puzzle."""
    tick_length_mm: tuple[float, float] = (8.0, 22.0)
    tick_width_mm: tuple[float, float] = (0.35, 0.8)
    tick_spacing_mm: tuple[float, float] = (2.0, 6.0)
    """Distance of the two or three strokes of a mark."""


PRISTINE = WearSettings()
"""No wear at all, as PairingNet's pieces."""

PAPER = WearSettings(erosion_steps=(1, 5), erosion_step_mm=0.24, turn_deg=3.0, shift_mm=3 * 0.24)
"""The paper's: erosion, then a small turn or shift. The solved puzzle shows the pieces where that
motion left them, so that it is part of their true poses."""

REALISTIC = WearSettings(
    turn_deg=3.0,
    shift_mm=2.0,
    loss_mm=1.9,
    loss_spread=0.65,
    loss_wavelength_mm=90.0,
    loss_shared=0.5,
    loss_roughness_mm=0.11,
    loss_roughness_longest_mm=6.0,
    loss_roughness_exponent=1.0,
    rounding_mm=(1.0, 4.5),
    chip_probability=0.3,
    chip_mm=(1.0, 6.0),
    sawn_probability=0.25,
    sawn_mm=(0.5, 2.5),
    flake_share=0.2,
    flake_mm=2.0,
    flake_colour=(168, 167, 166),
    stain_mm=1.2,
    stain_strength=0.38,
    stain_colour=(96, 93, 90),
    veil=(0.35, 0.8),
    missing=(0.1, 0.5),
    strays=(0.9, 0.1),
    ticks_probability=0.3,
)
"""Ours, after the pieces of RePAIR."""


def wear_piece(
    mask: Bytes,
    loss_log: Floats | None,
    rng: np.random.Generator,
    settings: WearSettings,
    mm_per_px: float,
) -> Floats:
    """Wears one piece.

    Args:
        mask: (H, W), 1 where the piece was; an empty margin of a few pixels around it.
        loss_log: (H, W) variation of the loss that all pieces share there, of variance 1; see
            `loss_field`.

    Returns:
        (H, W) field, positive where the piece still is.
    """
    if settings.loss_mm <= 0:
        return _eroded(mask, rng, settings, mm_per_px)
    loss = _loss(loss_log, mask.shape, rng, settings, mm_per_px)
    rounding = rng.uniform(*settings.rounding_mm) / mm_per_px
    seed = int(rng.integers(2**63))
    before = cv2.countNonZero(mask)
    for harshness in (1.0, 0.5, 0.25, 0.0):
        again = np.random.default_rng(seed)
        solid = _rounded(mask, harshness * rounding)
        _chip(solid, mask, again, settings, harshness / mm_per_px)
        solid -= harshness * loss
        _saw(solid, mask, again, settings, harshness / mm_per_px)
        left = (solid > 0).view(np.uint8)
        if cv2.countNonZero(left) >= LEAST_LEFT * before:
            break
    _fill_holes(solid, left, mask)
    return solid


def loss_field(
    shape: tuple[int, int], rng: np.random.Generator, settings: WearSettings, mm_per_px: float
) -> Floats | None:
    """(H, W) variation of the loss over the whole picture, common to both sides of every break."""
    if settings.loss_mm <= 0:
        return None
    return smooth_field(rng, shape, settings.loss_wavelength_mm / mm_per_px)


def disturbance(centre: Pose, rng: np.random.Generator, settings: WearSettings) -> Pose:
    """The small motion that a piece about `centre` has made before the puzzle was recorded."""
    turns = rng.random() < 0.5
    angle = math.radians(rng.uniform(-1, 1) * settings.turn_deg) if turns else 0.0
    x, y = (0.0, 0.0) if turns else rng.uniform(-1, 1, 2) * settings.shift_mm
    moved = Pose(centre.x_mm + x, centre.y_mm + y, angle)
    return moved @ Pose(-centre.x_mm, -centre.y_mm)


def veil_paint(picture: Bytes, rng: np.random.Generator, settings: WearSettings) -> Bytes:
    """The (H, W, 3) picture of a whole fresco as it looks through its veil."""
    if settings.veil[1] <= 0:
        return picture
    cover = rng.uniform(*settings.veil)
    levels = np.arange(256)[:, None] * (1 - cover) + np.array(settings.veil_colour) * cover
    return np.asarray(cv2.LUT(picture, np.rint(levels).astype(np.uint8)[None]))


def damage_paint(
    image: Bytes,
    solid: Floats,
    rng: np.random.Generator,
    settings: WearSettings,
    mm_per_px: float,
) -> Bytes:
    """The (H, W, 3) picture of a piece with dirt along its rim and paint flaked off there."""
    # Half the resolution will do: neither dirt nor flakes have edges as sharp as a break.
    depth, coarse_mm = 0.5 * solid[::2, ::2], 2 * mm_per_px
    covers = []
    if settings.stain_strength > 0 and settings.stain_mm > 0:
        covers.append((_stain(depth, rng, settings, coarse_mm), settings.stain_colour))
    if settings.flake_share > 0 and settings.flake_mm > 0:
        covers.append((_flakes(depth, rng, settings, coarse_mm), settings.flake_colour))
    if not covers:
        return image
    return _covered(image, covers)


def tick_marks(
    shape: tuple[int, int],
    edges: list[Floats],
    rng: np.random.Generator,
    settings: WearSettings,
    mm_per_px: float,
) -> Bytes | None:
    """Strokes drawn across joins to record them: (H, W), 255 where the ink is; None without any.

    Args:
        edges: per join an (N, 2) line in mm, in the frame of the picture.
    """
    if rng.random() >= settings.ticks_probability:
        return None
    ink = np.zeros(shape, np.uint8)
    for edge in edges:
        length = float(np.linalg.norm(np.diff(edge, axis=0), axis=1).sum())
        if len(edge) < 8 or length < 15 or rng.random() >= settings.ticks_share:
            continue
        for _ in range(1 if length < 60 else int(rng.integers(1, 3))):
            _draw_mark(ink, edge, rng, settings, mm_per_px)
    return ink


def _covered(image: Bytes, covers: list[tuple[Floats, tuple[int, int, int]]]) -> Bytes:
    """The image under layers of other colours, lowest first, that keep a trace of its grain.

    Each layer is a share, on a raster that may be coarser, and an RGB colour.
    """
    shape = covers[0][0].shape
    kept = np.ones(shape, np.float32)
    added = [np.zeros(shape, np.float32) for _ in range(3)]
    means = cv2.mean(image)
    for cover, colour in covers:
        through = 1 - (1 - GRAIN) * cover
        kept *= through
        for channel in range(3):
            # What lies below shows through; the rest is the layer's colour around the mean.
            added[channel] *= through
            added[channel] += (colour[channel] - GRAIN * means[channel]) * cover
    size = image.shape[1::-1]
    mask = cv2.resize(kept, size)
    seen = cv2.multiply(image, cv2.merge([mask, mask, mask]), dtype=cv2.CV_32F)
    return np.asarray(cv2.add(seen, cv2.resize(cv2.merge(added), size), dtype=cv2.CV_8U))


def _stain(
    depth: Floats, rng: np.random.Generator, settings: WearSettings, mm_per_px: float
) -> Floats:
    """(H, W) share of the paint's colour that dirt hides at a depth (pixels) inside the rim."""
    reach_px = settings.stain_mm / mm_per_px
    log_reach = smooth_field(rng, (depth.shape[0], depth.shape[1]), 6 * reach_px)
    stain = cv2.exp(np.maximum(depth, 0) * (-1 / reach_px) * cv2.exp(-0.5 * log_reach))
    return np.asarray(stain * np.float32(settings.stain_strength))


def _flakes(
    depth: Floats, rng: np.random.Generator, settings: WearSettings, mm_per_px: float
) -> Floats:
    """(H, W), 1 where paint has flaked off."""
    window = depth.shape[0], depth.shape[1]
    flake_px = settings.flake_mm / mm_per_px
    patches = smooth_field(rng, window, 8 * flake_px)
    patches += FLAKE_RAGGED * rough_field(rng, window, max(4 * flake_px, 8))
    # The patches are where the field exceeds the quantile that leaves the wanted share.
    share = min(max(settings.flake_share, 1e-6), 1 - 1e-6)
    patches -= math.hypot(1, FLAKE_RAGGED) * NormalDist().inv_cdf(1 - share)
    patches *= np.float32(1.5 * flake_px)
    return np.asarray(np.clip(patches - depth, 0, 1))


def _draw_mark(
    ink: Bytes,
    edge: Floats,
    rng: np.random.Generator,
    settings: WearSettings,
    mm_per_px: float,
) -> None:
    """Two or three strokes side by side across one join."""
    k = int(rng.integers(2, len(edge) - 2))
    tangent = edge[k + 2] - edge[k - 2]
    tangent /= np.linalg.norm(tangent) + 1e-9
    lean = rng.normal(0, 0.25)
    width_px = max(1, round(rng.uniform(*settings.tick_width_mm) / mm_per_px))
    spacing = rng.uniform(*settings.tick_spacing_mm)
    for stroke in range(int(rng.integers(2, 4))):
        angle = math.pi / 2 + lean + rng.normal(0, 0.06)
        c, s = math.cos(angle), math.sin(angle)
        across = np.array([c * tangent[0] - s * tangent[1], s * tangent[0] + c * tangent[1]])
        middle = edge[k] + stroke * spacing * tangent
        ends = rng.uniform(*settings.tick_length_mm, 2)[:, None] * [[-0.5], [0.5]] * across
        bend = rng.normal(0, 0.3, 2)
        line = np.stack([middle + ends[0], middle + bend, middle + ends[1]]) / mm_per_px - 0.5
        fixed = np.round(line * 16).astype(np.int32)
        cv2.polylines(ink, [fixed], False, 255, width_px, cv2.LINE_AA, shift=4)


def _eroded(
    mask: Bytes, rng: np.random.Generator, settings: WearSettings, mm_per_px: float
) -> Floats:
    """Even erosion by a 3x3 square, as often as is drawn and as the piece bears."""
    steps = int(rng.integers(settings.erosion_steps[0], settings.erosion_steps[1] + 1))
    count = max(round(steps * settings.erosion_step_mm / mm_per_px), min(steps, 1))
    left = mask
    for _ in range(count):
        smaller = cv2.erode(left, np.ones((3, 3), np.uint8))
        if cv2.countNonZero(smaller) < LEAST_LEFT * cv2.countNonZero(mask):
            break
        left = smaller
    return np.asarray(cv2.GaussianBlur(left.astype(np.float32), (0, 0), EDGE_BLUR_PX) - 0.5)


def _loss(
    shared: Floats | None,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    settings: WearSettings,
    mm_per_px: float,
) -> Floats:
    """(H, W) depth in pixels lost from the break inwards."""
    # Half the resolution: roughness finer than four pixels would be lost when a piece is turned.
    half = -(-shape[0] // 2), -(-shape[1] // 2)
    varied = smooth_field(rng, half, settings.loss_wavelength_mm / mm_per_px / 2)
    if shared is not None:
        varied *= math.sqrt(1 - settings.loss_shared)
        varied += math.sqrt(settings.loss_shared) * shared[::2, ::2]
    loss = settings.loss_mm / mm_per_px * cv2.exp(settings.loss_spread * varied)
    if settings.loss_roughness_mm > 0:
        longest_px = settings.loss_roughness_longest_mm / mm_per_px / 2
        rough = rough_field(rng, half, longest_px, settings.loss_roughness_exponent)
        loss += np.float32(settings.loss_roughness_mm / mm_per_px) * rough
    loss = np.clip(loss, 0, settings.loss_most_mm / mm_per_px)
    return np.asarray(cv2.resize(loss, (shape[1], shape[0])))


def _rounded(mask: Bytes, radius_px: float) -> Floats:
    """Signed distance in pixels from the edge of a mask whose corners are rounded."""
    depth = cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_5) - 0.5
    if radius_px >= 1:
        depth -= _beyond_disc(depth, radius_px)
    return np.asarray(cv2.GaussianBlur(depth, (3, 3), EDGE_BLUR_PX))


def _beyond_disc(depth: Floats, radius_px: float) -> Floats:
    """(H, W) how much less deep pixels lie once corners that no disc of that radius fills are
    gone."""
    # Half the resolution will do: away from corners there is nothing to be found.
    coarse = depth[::2, ::2]
    core = (coarse <= radius_px).view(np.uint8)
    reach = 2 * cv2.distanceTransform(core, cv2.DIST_L2, cv2.DIST_MASK_5) - 1
    lost = np.where(core, coarse + reach - radius_px - 1, 0)
    return np.asarray(cv2.resize(np.maximum(lost, 0), depth.shape[::-1]))


def _fill_holes(solid: Floats, left: Bytes, mask: Bytes) -> None:
    """Undoes, in place, wear that would bore through a piece rather than nibble at its edge."""
    borders, levels = cv2.findContours(left, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    holes = [border for border, level in zip(borders, levels[0], strict=True) if level[3] >= 0]
    if holes:
        filled = cv2.drawContours(np.zeros_like(left), holes, -1, 1, cv2.FILLED)
        np.maximum(solid, 1, out=solid, where=(filled & mask).view(np.bool_))


def _chip(
    solid: Floats,
    mask: Bytes,
    rng: np.random.Generator,
    settings: WearSettings,
    px: float,
) -> None:
    """Breaks corners off, in place. `px` is pixels a mm, times the harshness of the wear."""
    if settings.chip_probability <= 0:
        return
    corners, inward = _corners(mask, 3 * px)
    for corner, direction in zip(corners, inward, strict=True):
        depth = rng.uniform(*settings.chip_mm) * px
        tilt = rng.normal(0, 0.35)
        if rng.random() >= settings.chip_probability or depth < 0.5:
            continue
        c, s = math.cos(tilt), math.sin(tilt)
        nx, ny = c * direction[0] - s * direction[1], s * direction[0] + c * direction[1]
        reach = math.ceil(3 * depth)
        left, top = np.maximum(corner - reach, 0)
        window = solid[top : corner[1] + reach + 1, left : corner[0] + reach + 1]
        y, x = np.ogrid[: window.shape[0], : window.shape[1]]
        x, y = x + (left - corner[0]), y + (top - corner[1])
        plane = (nx * x + ny * y - depth).astype(np.float32)
        np.minimum(window, plane, out=window, where=np.hypot(x, y) <= reach)


def _saw(
    solid: Floats,
    mask: Bytes,
    rng: np.random.Generator,
    settings: WearSettings,
    px: float,
) -> None:
    """Cuts along one long edge of the piece with a saw, in place."""
    if rng.random() >= settings.sawn_probability or px <= 0:
        return
    outline = max(
        cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0], key=cv2.contourArea
    )
    tolerance = 4 * px
    vertices = cv2.approxPolyDP(outline, tolerance, True)[:, 0].astype(float)
    along = np.roll(vertices, -1, axis=0) - vertices
    lengths = np.linalg.norm(along, axis=1)
    chosen = int(rng.choice(len(vertices), p=lengths / lengths.sum()))
    depth = rng.uniform(*settings.sawn_mm) * px
    direction = along[chosen] / max(lengths[chosen], 1e-9)
    # OpenCV lists the outer border anticlockwise in a frame whose y points up, so that seen with
    # y pointing down the inside is to the right of the direction of travel.
    side = 1.0 if cv2.contourArea(outline, oriented=True) > 0 else -1.0
    y, x = np.ogrid[: solid.shape[0], : solid.shape[1]]
    x, y = x - vertices[chosen, 0], y - vertices[chosen, 1]
    inward = side * (direction[0] * y - direction[1] * x) - depth
    ahead = direction[0] * x + direction[1] * y
    near = (inward > -depth - 2 * tolerance) & (ahead > -tolerance)
    near &= ahead < lengths[chosen] + tolerance
    np.minimum(solid, inward.astype(np.float32), out=solid, where=near)


def _corners(mask: Bytes, tolerance_px: float) -> tuple[NDArray[np.int64], Points]:
    """(N, 2) convex corners of a mask, and (N, 2) unit vectors that point inwards from them."""
    outline = max(
        cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0], key=cv2.contourArea
    )
    vertices = cv2.approxPolyDP(outline, max(tolerance_px, 1.0), True)[:, 0].astype(float)
    back, forth = np.roll(vertices, 1, axis=0) - vertices, np.roll(vertices, -1, axis=0) - vertices
    back /= np.linalg.norm(back, axis=1, keepdims=True) + 1e-9
    forth /= np.linalg.norm(forth, axis=1, keepdims=True) + 1e-9
    turn = back[:, 0] * forth[:, 1] - back[:, 1] * forth[:, 0]
    side = np.sign(cv2.contourArea(outline, oriented=True))
    sharp = (back * forth).sum(axis=1) > math.cos(math.radians(135))
    convex = sharp & (turn * side < 0)
    inward = back + forth
    inward /= np.linalg.norm(inward, axis=1, keepdims=True) + 1e-9
    return vertices[convex].astype(int), inward[convex]
