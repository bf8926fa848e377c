"""Which contour points of two pieces belong together: PairingNet proposes joins and backs them.

Two of its networks are asked, one that has learned from worn pieces and one from lightly worn ones:
neither is good at both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.matching.evidence import Matches
from reassembly.matching.motions import Motions
from reassembly.matching.rim import Rim, normals_of
from reassembly.puzzle import Fragment
from reassembly.training.views import contour

if TYPE_CHECKING:
    from reassembly.solvers.pairingnet import Codes, PairingNet

__all__ = ["LIGHT", "WORN", "Matcher", "Seen", "is_light", "load_matcher", "load_matchers"]

WORN, LIGHT = "matcher", "light"
"""Weights of the package: PairingNet's network, trained on `realistic` and on `paper` puzzles."""
PROPOSED = 20
"""Placements of a pair that matching points propose."""

Floats = NDArray[np.float32]

ENCODED_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Seen:
    """The pieces of a puzzle as the matcher sees them."""

    codes: Codes
    number: Mapping[str, int]
    points: Floats
    """(P, M, 2): contours, mm, in centred frames."""
    normals: Floats
    """(P, M, 2), outwards."""
    of_rim: Sequence[NDArray[np.int64]]
    """Of each point of a piece's rim, the nearest point of its contour."""


class Matcher:
    """PairingNet's network, asked how points match and which pieces are likely neighbours."""

    def __init__(self, network: PairingNet, digest: str, device: str = "cpu") -> None:
        self.network, self.digest, self.device = network.to(device).eval(), digest, device

    @torch.no_grad()
    def see(self, fragments: Sequence[Fragment], rims: Mapping[str, Rim]) -> Seen:
        """Encodes pieces."""
        from scipy.spatial import cKDTree

        from reassembly.solvers.pairingnet import Codes

        parts, outlines = [], []
        for start in range(0, len(fragments), ENCODED_AT_ONCE):
            view = contour(fragments[start : start + ENCODED_AT_ONCE])
            tensors = (torch.from_numpy(view[n]) for n in ("contour", "contour_paint"))
            parts.append(self.network.codes(*(x.to(self.device) for x in tensors)))
            outlines.append(view["contour"])
        points = np.concatenate(outlines)
        step = np.linalg.norm(np.roll(points, -1, axis=1) - points, axis=-1).mean(axis=1)
        normals = np.stack([normals_of(p, s) for p, s in zip(points, step, strict=True)])
        names = ("has", "lacks", "piece_has", "piece_lacks")
        codes = Codes(*(torch.cat([getattr(part, n) for part in parts]) for n in names))
        of_rim = [
            np.asarray(cKDTree(own).query(rims[f.id].points)[1])
            for f, own in zip(fragments, points, strict=True)
        ]
        return Seen(codes, {f.id: k for k, f in enumerate(fragments)}, points, normals, of_rim)

    @torch.no_grad()
    def match(self, seen: Seen, fixed: str, moving: str) -> Matches:
        """How the points of two pieces match."""
        a, b = seen.number[fixed], seen.number[moving]
        index = torch.tensor([[a], [b]], device=self.device)
        forth, again = self.network.matches(seen.codes, *index)
        count = forth.shape[1]
        log = (forth[0, :, :-1] + again[0, :, :-1].mT) / 2 + float(np.log(count))
        likelier = log.cpu().numpy()
        motions = self._placements(likelier, seen.points[a], seen.points[b])
        points = seen.points[b]
        step = float(np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=-1).mean())
        return Matches(points, seen.normals[b], step, seen.of_rim[a], likelier, motions)

    @staticmethod
    def _placements(likelier: Floats, fixed: Floats, moving: Floats) -> Motions:
        """(K, 3): motions by which matching points touch, best first."""
        from reassembly.solvers.pairing_poses import line_of, pose_of, propose

        one, other = (line_of(points.astype(np.float64)) for points in (fixed, moving))
        match = np.exp(likelier.astype(np.float64)) / len(likelier)
        found = (pose_of(motion) for motion, _ in propose(match, one, other, PROPOSED))
        rows = [(pose.rotation_rad, pose.x_mm, pose.y_mm) for pose in found]
        return np.array(rows, np.float64).reshape(-1, 3)

    @torch.no_grad()
    def likely(self, seen: Seen) -> NDArray[np.float64]:
        """(P, P) from 0 to 1: how likely pieces are neighbours, in the matcher's own measure."""
        return (1 + self.network.similarity(seen.codes).double().cpu().numpy()) / 2


def load_matcher(weights: str | None = None, device: str = "cpu") -> Matcher:
    """The matcher: a name, a safetensors file or a run; the package's own when left out."""
    from reassembly.config import PairingNetConfig
    from reassembly.solvers.pairingnet import PairingNet
    from reassembly.weights import load_network

    network, digest = load_network("pairingnet", PairingNet, PairingNetConfig, weights or WORN)
    return Matcher(network, digest, device)


def load_matchers(worn: str | None = None, device: str = "cpu") -> list[Matcher]:
    """Those that joins are found with: the one for worn pieces, and that for lightly worn ones."""
    return [load_matcher(worn, device), load_matcher(LIGHT, device)]


def is_light(matchers: Sequence[Matcher], seen: Sequence[Seen]) -> bool:
    """Whether the pieces of a puzzle are lightly worn.

    Pieces of the kind that a network has learned from look less alike to it than others do: it
    knows what tells them apart. So they are if they look more alike to the matcher of worn ones.

    Args:
        matchers: see `load_matchers`.
        seen: of all pieces of the puzzle, by each.
    """
    alike = []
    for matcher, own in zip(matchers, seen, strict=True):
        likely = matcher.likely(own)
        np.fill_diagonal(likely, 0.0)
        alike.append(float(np.median(likely.max(axis=1))))
    worn, light = alike
    return worn > light
