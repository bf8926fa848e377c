"""Which contour points of two pieces belong together: PairingNet as evidence for joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.matching.evidence import Matches
from reassembly.matching.rim import Rim, normals_of
from reassembly.puzzle import Fragment
from reassembly.training.views import contour

if TYPE_CHECKING:
    from reassembly.solvers.pairingnet import Codes, PairingNet

__all__ = ["MATCHER", "Matcher", "Seen", "load_matcher"]

MATCHER = "matcher"
"""Weights of the package: PairingNet's network, trained on `realistic` puzzles."""

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
        points = seen.points[b]
        step = float(np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=-1).mean())
        return Matches(points, seen.normals[b], step, seen.of_rim[a], log.cpu().numpy())

    @torch.no_grad()
    def likely(self, seen: Seen) -> NDArray[np.float64]:
        """(P, P) from 0 to 1: how likely pieces are neighbours, in the matcher's own measure."""
        return (1 + self.network.similarity(seen.codes).double().cpu().numpy()) / 2


def load_matcher(weights: str | None = None, device: str = "cpu") -> Matcher:
    """The matcher: a name, a safetensors file or a run; the package's own when left out."""
    from reassembly.config import PairingNetConfig
    from reassembly.solvers.pairingnet import PairingNet
    from reassembly.weights import load_network

    network, digest = load_network("pairingnet", PairingNet, PairingNetConfig, weights or MATCHER)
    return Matcher(network, digest, device)
