"""ReassembleNet as a solver: keypoints, texture at the keypoints chosen, poses out of noise.

One sample is the network's own answer, with no search added: the mean over each piece's keypoints.
Of several, the one wins that fits best, see `Reassemblenet`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import shapely
import torch
from numpy.typing import NDArray
from shapely import Polygon
from torch import Tensor

from reassembly.diffusion.batch import Batch, Layout
from reassembly.diffusion.denoiser import Tokens
from reassembly.diffusion.frames import to_frame
from reassembly.errors import InputError
from reassembly.keypoints.describe import centred_pose, describe
from reassembly.outline.contour import resample
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers.base import ProgressCallback, report
from reassembly.solvers.settings import (
    Device,
    check_choice,
    check_counts,
    check_device_here,
)
from reassembly.texture.patches import cut_patches, whole_piece
from reassembly.weights import list_weights, load_reassemblenet, load_texture_encoder

if TYPE_CHECKING:
    from reassembly.diffusion.reassemblenet import ReassembleNet
    from reassembly.texture.encoder import TextureEncoder

__all__ = ["Reassemblenet", "agreements", "contact_and_overlap", "poses_of"]

Selector = Literal["fps", "frozen", "learnable"]
Floats = NDArray[np.float64]

SHIPPED: Mapping[Selector, str] = {
    "fps": "reassemblenet-fps",
    "frozen": "reassemblenet-frozen",
    "learnable": "reassemblenet-learnable",
}
"""Names of the weights for each way to select keypoints."""
CONTACT_MM = 3.0
"""Outlines nearer to each other than this touch."""
OUTLINE_STEP_MM = 2.0
SIMPLIFY_MM = 0.3
CLOSE_DEG = 10.0
CLOSE_DIAMETERS = 0.2
"""Two samples agree about a piece within this rotation and this many of its diameters."""
PATCHES_AT_ONCE = 256
MATCHES_AT_ONCE = 16_000_000
"""Pairs of keypoints in memory at once, which bounds how many samples are drawn together: those of
200 pieces with 20 keypoints each, about 1 GB."""
PREVIEWS = 10
OUTLINES_END, WHOLES_END, TEXTURE_END, DENOISING_END = 0.25, 0.3, 0.5, 0.98
"""Fractions of progress."""


class Reassemblenet:
    """Learnable keypoints and diffusion over poses, after ReassembleNet (Islam et al., 2025).

    Every piece is placed, in one island. With locked pieces, poses are denoised around them.

    Of several samples, the one with the largest sum of these wins, each from 0 to 1: the share of
    all outlines that lies within 3 mm of another piece's outline; minus the area in which pieces
    overlap, as a share of the whole; plus the mean share of the other samples that agree about a
    piece, which is within 10 degrees and a fifth of its diameter. The confidence of a piece is the
    share of the other samples that agree with the winner about it; the piece that all others are
    placed by has the mean of theirs. One sample knows no confidence.

    Args:
        selector: how keypoints are selected: by farthest point sampling, by the pre-trained
            selector, or by the selector trained along with the denoiser. Left out: as the
            weights have it, and by farthest point sampling with those shipped.
        steps: of denoising.
        samples: how many answers are drawn.
        weights: a name, a safetensors file or the folder of a training run; those shipped for the
            selector when left out.
        device: `cpu` or `cuda`.
        ancestral: fresh noise in every step, as the paper samples in 600 steps, instead of DDIM.
        adaptive: whether jagged outlines get more keypoints than plain ones; left out: as the
            weights were trained.
    """

    def __init__(
        self,
        *,
        selector: Selector | None = None,
        steps: int = 20,
        samples: int = 1,
        weights: str | None = None,
        device: Device = "cpu",
        ancestral: bool = False,
        adaptive: bool | None = None,
    ) -> None:
        if selector is not None:
            check_choice("selector", selector, get_args(Selector))
        check_counts(steps=steps, samples=samples)
        check_device_here(device)
        for name, choice in (("ancestral", ancestral), ("adaptive", adaptive)):
            if not isinstance(choice, bool | None):
                raise InputError(f"{name} is {choice!r}", "Give true or false")
        model, encoder, sha256 = _load(selector, weights)
        if adaptive is not None:
            keypoints = replace(model.config.keypoints, adaptive=adaptive)
            model.config = replace(model.config, keypoints=keypoints)
        longest = model.config.diffusion.train_steps
        if steps > longest:
            raise InputError(f"steps is {steps}", f"These weights take at most {longest} steps")
        self.steps, self.samples, self.ancestral = steps, samples, ancestral
        self.device = device
        self.model = model.to(device)
        self.encoder = None if encoder is None else encoder.to(device)
        self.weights_hash = sha256
        networks = [self.model] if self.encoder is None else [self.model, self.encoder]
        self.parameters = sum(p.numel() for network in networks for p in network.parameters())

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`."""
        locked = dict(locked or {})
        if len(locked) == len(puzzle):
            return Assembly.of(puzzle, locked, confidence=dict.fromkeys(locked, 1.0))
        # Not inference_mode: layouts are cached, and could not be used for training any more.
        with torch.no_grad():
            return _Run(self, puzzle, locked, seed, progress).assembly()


class _Run:
    """What one puzzle needs while it is being solved."""

    def __init__(
        self,
        solver: Reassemblenet,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        seed: int,
        progress: ProgressCallback | None,
    ) -> None:
        self.solver, self.puzzle, self.locked, self.progress = solver, puzzle, locked, progress
        self.fragments = puzzle.fragments
        self.generator = torch.Generator().manual_seed(seed)
        area = np.array([fragment.area_mm2 for fragment in self.fragments])
        self.scale_mm = math.sqrt(area.sum())
        self.diameter_mm = 2 * np.sqrt(area / math.pi)
        lies = np.array([fragment.id in locked or not locked for fragment in self.fragments])
        anchor = int(np.where(lies, area, 0.0).argmax())
        self.fixed = lies if locked else np.arange(len(area)) == anchor
        known = locked.get(self.fragments[anchor].id)
        self.origin = (
            (0.0, 0.0, 0.0) if known is None else centred_pose(self.fragments[anchor], known)
        )

    def assembly(self) -> Assembly:
        tokens = self._tokens()
        vectors = self._sample(tokens)
        if self.solver.samples == 1:
            return self._assembled(vectors[0])
        return self._best(vectors)

    # What is seen of the pieces

    def _tokens(self) -> Tokens:
        model, device = self.solver.model, self.solver.device
        batch = self._batch().to(device)
        chosen = model.choose(batch)
        fixed = torch.from_numpy(self.fixed).to(device)
        return model.describe(batch, chosen, fixed, lambda p, c: self._local(batch, p, c))

    def _batch(self) -> Batch:
        seen = []
        for number, fragment in enumerate(self.fragments):
            report(self.progress, OUTLINES_END * number / len(self.fragments), "outlines")
            seen.append(describe([fragment]))
        columns = {
            name: torch.from_numpy(np.concatenate([getattr(part, name) for part in seen]))
            for name in ("points", "edge_angle", "curvature", "windows", "area")
        }
        if self.solver.model.config.features.whole and self.solver.encoder is not None:
            side = self.solver.encoder.input_px
            pictures = np.stack([whole_piece(fragment, side) for fragment in self.fragments])
            columns["whole"] = self._encoded(pictures, OUTLINES_END, WHOLES_END)
        return Batch((len(self.fragments),), **columns)

    def _local(self, batch: Batch, piece: Tensor, candidate: Tensor) -> Tensor:
        """Texture around some candidates, (T, F), cut only there."""
        features = self.solver.model.config.features
        points = batch.points[piece, candidate].double().cpu().numpy()
        angles = batch.edge_angle[piece, candidate].double().cpu().numpy()
        owner = piece.cpu().numpy()
        patches = [
            cut_patches(
                fragment,
                points[owner == number] + fragment.centroid_mm,
                angles[owner == number] if features.patch_frame == "tangent" else None,
                features.patch_px,
                features.patch_mm_per_px,
            )
            for number, fragment in enumerate(self.fragments)
        ]
        return self._encoded(np.concatenate(patches), WHOLES_END, TEXTURE_END)

    def _encoded(self, pictures: NDArray[np.uint8], first: float, last: float) -> Tensor:
        """(N, s, s, 4) to (N, F), in the precision in which training sees features."""
        assert self.solver.encoder is not None
        parts = []
        for start in range(0, len(pictures), PATCHES_AT_ONCE):
            report(self.progress, first + (last - first) * start / len(pictures), "texture")
            part = pictures[start : start + PATCHES_AT_ONCE]
            parts.append(self.solver.encoder.encode(part).half())
        return torch.cat(parts)

    # Poses

    def _given(self) -> Tensor:
        """(P, 4) pose vectors of the pieces that stay; the anchor's for all others."""
        lying = [
            self.origin if pose is None else centred_pose(fragment, pose)
            for fragment in self.fragments
            for pose in [self.locked.get(fragment.id)]
        ]
        origin = torch.tensor([self.origin] * len(lying), dtype=torch.float64)
        scale = torch.full((len(lying),), self.scale_mm, dtype=torch.float64)
        return to_frame(torch.tensor(lying, dtype=torch.float64), origin, scale).float()

    def _sample(self, tokens: Tokens) -> Floats:
        """(S, P, 4) pose vectors."""
        solver, pieces = self.solver, len(self.fragments)
        given = self._given().to(solver.device)
        at_once = max(1, MATCHES_AT_ONCE // tokens.layout.count**2)
        every = max(1, solver.steps // PREVIEWS)
        found: list[Floats] = []
        report(self.progress, TEXTURE_END, "denoising")
        while len(found) < solver.samples:
            count = min(at_once, solver.samples - len(found))
            before = len(found)

            def step_done(
                number: int, clean: Tensor, count: int = count, first: int = before
            ) -> None:
                done = (first + count * (number + 1) / solver.steps) / solver.samples
                fraction = TEXTURE_END + (DENOISING_END - TEXTURE_END) * done
                shown = self.progress is not None and (number + 1) % every == 0
                preview = self._assembled(_numbers(clean[:pieces])) if shown else None
                report(self.progress, fraction, "denoising", preview)

            clean = solver.model.sample(
                _repeated(tokens, pieces, count),
                given.repeat(count, 1),
                solver.steps,
                self.generator,
                eta=1.0 if solver.ancestral else 0.0,
                step_done=step_done,
            )
            found += list(_numbers(clean).reshape(count, pieces, 4))
        return np.stack(found)

    def _assembled(
        self, vectors: Floats, confidence: Mapping[str, float] | None = None
    ) -> Assembly:
        poses = poses_of(vectors, self.fragments, self.scale_mm, self.origin)
        return Assembly.of(self.puzzle, {**poses, **self.locked}, confidence=confidence)

    def _best(self, vectors: Floats) -> Assembly:
        """The sample that fits best, with what the others think of it."""
        report(self.progress, DENOISING_END, "comparing samples")
        agree = agreements(vectors, self.scale_mm, self.diameter_mm)
        outlines = [fragment.polygon.simplify(SIMPLIFY_MM) for fragment in self.fragments]
        scores = []
        for number, sample in enumerate(vectors):
            poses = poses_of(sample, self.fragments, self.scale_mm, self.origin)
            placed = [
                shapely.transform(outline, poses[fragment.id].apply)
                for fragment, outline in zip(self.fragments, outlines, strict=True)
            ]
            contact, overlap = contact_and_overlap(placed)
            scores.append(contact - overlap + agree[number][:, ~self.fixed].mean())
        best = int(np.argmax(scores))
        trust = agree[best].mean(axis=0)
        trust[self.fixed] = 1.0 if self.locked else trust[~self.fixed].mean()
        confidence = {f.id: float(t) for f, t in zip(self.fragments, trust, strict=True)}
        return self._assembled(vectors[best], confidence)


def poses_of(
    vectors: Floats,
    fragments: Sequence[Fragment],
    scale_mm: float,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, Pose]:
    """Undoes `diffusion.frames.to_frame`: pose vectors back to poses of whole fragments.

    Args:
        vectors: (P, 4), as `diffusion.frames` says; rotations of any length.
        scale_mm: the unit of their translations.
        origin: x_mm and y_mm of the anchor's centroid, and its rotation in radians.
    """
    anchor = Pose(*origin)
    poses = {}
    for fragment, (x, y, cos, sin) in zip(fragments, vectors.tolist(), strict=True):
        centred = anchor @ Pose(x * scale_mm, y * scale_mm, math.atan2(sin, cos))
        poses[fragment.id] = centred @ Pose(*-fragment.centroid_mm)
    return poses


def agreements(vectors: Floats, scale_mm: float, diameter_mm: Floats) -> NDArray[np.bool_]:
    """Of each sample, which other samples agree with it about which piece.

    Args:
        vectors: (S, P, 4) pose vectors in one frame.
        diameter_mm: (P,) of the pieces.

    Returns:
        (S, S - 1, P).
    """
    shift_mm = np.linalg.norm(vectors[:, None, :, :2] - vectors[None, :, :, :2], axis=-1) * scale_mm
    turns = vectors[..., 2] + 1j * vectors[..., 3]
    turn_deg = np.degrees(np.abs(np.angle(turns[:, None] * turns[None].conj())))
    agree = (turn_deg < CLOSE_DEG) & (shift_mm < CLOSE_DIAMETERS * diameter_mm)
    count = len(vectors)
    others = ~np.eye(count, dtype=bool)
    return np.asarray(agree[others].reshape(count, count - 1, -1))


def contact_and_overlap(placed: Sequence[Polygon]) -> tuple[float, float]:
    """How pieces lie to each other: the share of all outlines within 3 mm of another's outline, and
    the area in which two overlap as a share of all area, at most 1."""
    tree = shapely.STRtree(placed)
    one, other = tree.query(placed, predicate="dwithin", distance=CONTACT_MM)
    one, other = one[one != other], other[one != other]
    shapes = np.array(placed, dtype=object)
    first = one < other
    both = shapely.intersection(shapes[one[first]], shapes[other[first]])
    overlap = float(shapely.area(both).sum() / shapely.area(shapes).sum())
    rings = np.array([polygon.exterior for polygon in placed], dtype=object)
    shapely.prepare(rings)
    near = length = 0.0
    for number, ring in enumerate(rings):
        points = resample(np.asarray(ring.coords), OUTLINE_STEP_MM)
        touching = np.zeros(len(points), bool)
        for neighbour in other[one == number]:
            touching |= shapely.dwithin(shapely.points(points), rings[neighbour], CONTACT_MM)
        near += touching.mean() * ring.length
        length += ring.length
    return near / length, min(overlap, 1.0)


def _load(
    selector: Selector | None, weights: str | None
) -> tuple[ReassembleNet, TextureEncoder | None, str]:
    """The network, its texture encoder where it needs one, and the checksum of its weights."""
    name = SHIPPED[selector or "fps"] if weights is None else weights
    if weights is None and name not in {file.name for file in list_weights()}:
        raise InputError(
            f"no weights come with reassembly for the selector {selector}",
            "Train some with `reassembly train --stage pretrain --out RUN --set "
            f"model.keypoints.selector={selector}`, then give --weights RUN",
        )
    model, loaded = load_reassemblenet(name)
    trained = model.config.keypoints.selector
    if selector is not None and trained != selector:
        raise InputError(
            f"the weights {name} were trained with the selector {trained}, not {selector}",
            f"Give --selector {trained}, or other weights",
        )
    features = model.config.features
    if not (features.local or features.whole):
        return model, None, loaded.sha256
    encoder, _ = load_texture_encoder(features.encoder)
    expected = int(loaded.config["texture_dim"])
    if encoder.dim != expected:
        raise InputError(
            f"the weights {name} were trained with {expected} texture features, but the encoder "
            f"{features.encoder} gives {encoder.dim}",
            "Use the encoder they were trained with",
        )
    return model, encoder, loaded.sha256


def _repeated(tokens: Tokens, pieces: int, count: int) -> Tokens:
    """The same puzzle `count` times."""
    if count == 1:
        return tokens
    each = tuple(tokens.layout.tokens_of_piece.tolist())
    one, other = tokens.codes
    return Tokens(
        tokens.features.repeat(count, 1),
        tokens.points.repeat(count, 1),
        tokens.normals.repeat(count, 1),
        (one.repeat(count, 1), other.repeat(count, 1)),
        tokens.fixed.repeat(count),
        Layout.of(each * count, (pieces,) * count, tokens.points.device),
    )


def _numbers(vectors: Tensor) -> Floats:
    return vectors.double().cpu().numpy()
