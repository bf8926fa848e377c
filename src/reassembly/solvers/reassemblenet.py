"""ReassembleNet as a solver: keypoints, texture at the keypoints chosen, poses out of noise.

One sample is the network's own answer, with no search added: the mean over each piece's keypoints.
Of several, the one wins that fits best, see `Reassemblenet`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import shapely
import torch
from numpy.typing import NDArray
from shapely import Polygon
from torch import Tensor

from reassembly.diffusion.batch import Batch
from reassembly.diffusion.denoiser import Tokens
from reassembly.errors import InputError
from reassembly.outline.contour import resample
from reassembly.puzzle import Fragment
from reassembly.solvers.diffusing import (
    DENOISED,
    SEEN,
    DiffusionSolver,
    Run,
    Sampler,
    StepDone,
    outline_of,
)
from reassembly.solvers.settings import Device, check_choice
from reassembly.texture.patches import cut_patches, whole_piece
from reassembly.weights import (
    check_learned_with,
    list_weights,
    load_reassemblenet,
    load_texture_encoder,
)

if TYPE_CHECKING:
    from reassembly.diffusion.reassemblenet import ReassembleNet
    from reassembly.texture.encoder import TextureEncoder

__all__ = ["Reassemblenet", "contact_and_overlap"]

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
PATCHES_AT_ONCE = 256
MATCHES_AT_ONCE = 16_000_000
"""Pairs of keypoints in memory at once, which bounds how many samples are drawn together: those of
200 pieces with 20 keypoints each, about 1 GB."""
WHOLES_END, TEXTURE_END = 0.3, 0.5
"""Fractions of progress; outlines come first."""


class Reassemblenet(DiffusionSolver):
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
            weights have it; those shipped are of the last kind.
        steps: of denoising.
        samples: how many answers are drawn.
        weights: a name, a safetensors file or the folder of a training run; those shipped for the
            selector when left out.
        device: `cpu` or `cuda`.
        ancestral: fresh noise in every step (DDIM with eta 1), which mends what went wrong before;
            without it, DDIM as the paper has it, which is deterministic.
        polish: further steps at the end, when no noise is left.
        adaptive: whether jagged outlines get more keypoints than plain ones; left out: as the
            weights were trained.
    """

    looked, compares = TEXTURE_END, True
    model: ReassembleNet

    def __init__(
        self,
        *,
        selector: Selector | None = None,
        steps: int = 20,
        samples: int = 1,
        weights: str | None = None,
        device: Device = "cpu",
        ancestral: bool = True,
        polish: int = 4,
        adaptive: bool | None = None,
    ) -> None:
        if selector is not None:
            check_choice("selector", selector, get_args(Selector))
        for name, choice in (("ancestral", ancestral), ("adaptive", adaptive)):
            if not isinstance(choice, bool | None):
                raise InputError(f"{name} is {choice!r}", "Give true or false")
        model, encoder, sha256 = _load(selector, weights)
        if adaptive is not None:
            keypoints = replace(model.config.keypoints, adaptive=adaptive)
            model.config = replace(model.config, keypoints=keypoints)
        super().__init__(model, sha256, steps=steps, samples=samples, device=device)
        if isinstance(polish, bool) or not isinstance(polish, int) or polish < 0:
            raise InputError(f"polish is {polish!r}", "Give a whole number, 0 or more")
        self.ancestral, self.polish = ancestral, polish
        self.encoder = None if encoder is None else encoder.to(device)
        if self.encoder is not None:
            self.parameters += sum(p.numel() for p in self.encoder.parameters())

    # What is seen of the pieces

    def sampler(self, run: Run) -> Sampler:
        tokens = self.tokens(run)

        def draw(count: int, generator: torch.Generator, step_done: StepDone) -> Tensor:
            given, eta = run.given.repeat(count, 1), 1.0 if self.ancestral else 0.0
            several = tokens.repeated(count)
            return self.model.sample(
                several, given, self.steps, generator, eta, step_done, self.polish
            )

        return Sampler(draw, max(1, MATCHES_AT_ONCE // tokens.layout.count**2))

    def tokens(self, run: Run) -> Tokens:
        """The keypoints of all pieces; texture is cut only there."""
        batch = run.see(outline_of, "outlines")
        if self.model.config.features.whole:
            assert self.encoder is not None
            side = self.encoder.input_px
            pictures = np.stack([whole_piece(fragment, side) for fragment in run.fragments])
            batch = replace(batch, whole=self._encoded(pictures, run, SEEN, WHOLES_END))

        def local(piece: Tensor, candidate: Tensor) -> Tensor:
            patches = self._patches(batch, piece, candidate, run.fragments)
            return self._encoded(patches, run, WHOLES_END, TEXTURE_END)

        return self.model.describe(batch, self.model.choose(batch), run.fixed, local)

    def _patches(
        self, batch: Batch, piece: Tensor, candidate: Tensor, fragments: Sequence[Fragment]
    ) -> NDArray[np.uint8]:
        """(T, s, s, 4) of paint around some candidates (T,) of pieces (T,)."""
        features = self.model.config.features
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
            for number, fragment in enumerate(fragments)
        ]
        return np.concatenate(patches)

    def _encoded(self, pictures: NDArray[np.uint8], run: Run, first: float, last: float) -> Tensor:
        """(N, s, s, 4) to (N, F), in the precision in which training sees features."""
        assert self.encoder is not None
        parts = []
        for start in range(0, len(pictures), PATCHES_AT_ONCE):
            run.report(first + (last - first) * start / len(pictures), "texture")
            part = pictures[start : start + PATCHES_AT_ONCE]
            parts.append(self.encoder.encode(part).half())
        return torch.cat(parts).to(self.device)

    # Which sample is best

    def best(self, vectors: Floats, agree: NDArray[np.bool_], run: Run) -> int:
        run.report(DENOISED, "comparing samples")
        outlines = {f.id: f.polygon.simplify(SIMPLIFY_MM) for f in run.fragments}
        free = ~run.fixed.cpu().numpy()
        scores = []
        for number, sample in enumerate(vectors):
            poses = run.poses(sample)
            placed = [shapely.transform(o, poses[i].apply) for i, o in outlines.items()]
            contact, overlap = contact_and_overlap(placed)
            scores.append(contact - overlap + agree[number][:, free].mean())
        return int(np.argmax(scores))


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
    name = SHIPPED[selector or "learnable"] if weights is None else weights
    if weights is None and name not in {file.name for file in list_weights()}:
        raise InputError(
            f"no weights come with reassembly for the selector {selector}",
            "Train some with `reassembly train --stage pretrain --device cuda --out RUN --set "
            f"model.keypoints.selector={selector} --set training.minutes=5` (of a GPU, after its "
            "puzzles are made; days of a CPU), "
            "then give --weights RUN; or leave --selector out",
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
    encoder, its_weights = load_texture_encoder(features.encoder)
    expected = int(loaded.config["texture_dim"])
    if encoder.dim != expected:
        raise InputError(
            f"the weights {name} were trained with {expected} texture features, but the encoder "
            f"{features.encoder} gives {encoder.dim}",
            "Use the encoder they were trained with",
        )
    check_learned_with(loaded, its_weights)
    return model, encoder, loaded.sha256
