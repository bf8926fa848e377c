"""Fragment, Puzzle, Assembly: what goes into a solver and what comes out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely import affinity
from shapely.geometry import Polygon

from reassembly.outline.contour import mask_polygon
from reassembly.pose import Pose

__all__ = ["Assembly", "Fragment", "Provenance", "Puzzle"]


@dataclass(frozen=True, eq=False)
class Fragment:
    """One piece: what its picture shows, where it is in that picture, and how large.

    The picture may be cropped: `image` and `mask` are a window of the scan, whose full size is
    `frame_px` and whose top-left pixel is `offset_px`. The fragment's own frame has its origin
    at the centre of the scan, so that cropping changes no pose.
    """

    id: str
    image: NDArray[np.uint8]
    """(H, W, 3), RGB, 8 bits a channel."""
    mask: NDArray[np.bool_]
    """(H, W), true where the fragment is: one connected part, holes allowed."""
    mm_per_px: float
    frame_px: tuple[int, int] = (0, 0)
    """(width, height) of the whole scan in pixels; (0, 0) stands for the image's own size."""
    offset_px: tuple[int, int] = (0, 0)
    """(x, y) of the image's top-left pixel within the scan."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Free: `filename`, inventory number, notes. No solver sees it."""

    def __post_init__(self) -> None:
        height, width = self.mask.shape
        if self.image.shape != (height, width, 3) or self.image.dtype != np.uint8:
            raise ValueError(
                f"fragment {self.id}: the image must be ({height}, {width}, 3) of uint8 to fit its "
                f"mask, but is {self.image.shape} of {self.image.dtype}"
            )
        if self.mask.dtype != np.bool_ or not self.mask.any():
            raise ValueError(f"fragment {self.id}: the mask must be boolean and not empty")
        if not (math.isfinite(self.mm_per_px) and self.mm_per_px > 0):
            raise ValueError(f"fragment {self.id}: mm_per_px must be above 0")
        if self.frame_px == (0, 0):
            object.__setattr__(self, "frame_px", (width, height))

    def cropped(self, margin_px: int = 2) -> Fragment:
        """The same fragment, holding no more than its mask's bounding box and a margin."""
        rows, columns = np.flatnonzero(self.mask.any(axis=1)), np.flatnonzero(self.mask.any(axis=0))
        top, left = max(rows[0] - margin_px, 0), max(columns[0] - margin_px, 0)
        window = np.s_[top : rows[-1] + 1 + margin_px, left : columns[-1] + 1 + margin_px]
        if self.mask[window].shape == self.mask.shape:
            return self
        crop = replace(
            self,
            image=self.image[window].copy(),
            mask=self.mask[window].copy(),
            offset_px=(self.offset_px[0] + int(left), self.offset_px[1] + int(top)),
        )
        if "polygon" in vars(self):
            vars(crop)["polygon"] = self.polygon
        return crop

    def anonymous(self, opaque_id: str) -> tuple[Fragment, Pose]:
        """The fragment as a stranger may see it: under another id, without metadata, in the
        frame of its own crop, since where a piece lay in its scan is no evidence.

        Returns:
            That fragment, and the motion from its frame to this one's.
        """
        crop = self.cropped()
        height, width = crop.mask.shape
        x, y = crop.origin_px
        shift = Pose((width / 2 - x) * self.mm_per_px, (height / 2 - y) * self.mm_per_px)
        stranger = replace(crop, id=opaque_id, frame_px=(0, 0), offset_px=(0, 0), metadata={})
        if "polygon" in vars(self):
            vars(stranger)["polygon"] = shapely.transform(self.polygon, shift.inverse().apply)
        return stranger, shift

    @property
    def origin_px(self) -> tuple[float, float]:
        """(x, y) of the fragment's origin in pixels of `image`."""
        return (
            self.frame_px[0] / 2 - self.offset_px[0],
            self.frame_px[1] / 2 - self.offset_px[1],
        )

    def to_mm(self, points_px: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, 2) pixels of `image` (x, y) to (N, 2) mm in the fragment's own frame."""
        return (np.asarray(points_px, dtype=np.float64) - self.origin_px) * self.mm_per_px

    @cached_property
    def polygon(self) -> Polygon:
        """The outline with its holes, mm, in the fragment's own frame."""
        x, y = self.origin_px
        s = self.mm_per_px
        return affinity.affine_transform(mask_polygon(self.mask), [s, 0, 0, s, -x * s, -y * s])

    @cached_property
    def area_mm2(self) -> float:
        return float(self.polygon.area)

    @cached_property
    def centroid_mm(self) -> NDArray[np.float64]:
        """(2,), in the fragment's own frame."""
        return np.array([self.polygon.centroid.x, self.polygon.centroid.y])

    def placed(self, pose: Pose) -> Polygon:
        """The outline, mm, where `pose` puts it."""
        return shapely.transform(self.polygon, pose.apply)


@dataclass(frozen=True, eq=False)
class Puzzle:
    """Fragments that may belong together, and their true poses where they are known."""

    id: str
    fragments: tuple[Fragment, ...]
    truth: Mapping[str, Pose] | None = None
    """True pose of every fragment that is no stray, in one common frame."""
    strays: frozenset[str] = frozenset()
    """Pieces of another object."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fragments", tuple(self.fragments))
        ids = [fragment.id for fragment in self.fragments]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"puzzle {self.id}: several fragments are called {', '.join(twice)}")
        if self.truth is not None:
            unknown = sorted(set(self.truth) - set(ids))
            missing = sorted(set(ids) - set(self.truth) - self.strays)
            if unknown or missing:
                raise ValueError(
                    f"puzzle {self.id}: true poses without a fragment: {unknown}; "
                    f"fragments without a true pose: {missing}"
                )

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(fragment.id for fragment in self.fragments)

    def __getitem__(self, fragment_id: str) -> Fragment:
        return self._by_id[fragment_id]

    def __len__(self) -> int:
        return len(self.fragments)

    @cached_property
    def _by_id(self) -> dict[str, Fragment]:
        return {fragment.id: fragment for fragment in self.fragments}

    @property
    def mm_per_px(self) -> float:
        """The finest scale among the fragments: the pixel of files that have only one."""
        return min(fragment.mm_per_px for fragment in self.fragments)


@dataclass(frozen=True)
class Provenance:
    """How an assembly came about."""

    solver: str
    version: str = ""
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the solver was told, as plain JSON values."""


@dataclass(frozen=True)
class Assembly:
    """Poses for the fragments of a puzzle.

    An assembly consists of islands. Poses within one island share its frame; two islands claim
    nothing about each other. Fragments in no island are unplaced.
    """

    islands: tuple[Mapping[str, Pose], ...]
    unplaced: tuple[str, ...] = ()
    confidence: Mapping[str, float] = field(default_factory=dict)
    """Per placed fragment, from 0 to 1: how likely its pose is right. Empty where the solver
    knows no such thing."""
    provenance: Provenance = field(default_factory=lambda: Provenance("unknown"))
    puzzle: Puzzle | None = field(default=None, compare=False, repr=False)
    """The fragments themselves; needed to draw or save, not to measure."""
    alternatives: tuple[Assembly, ...] = field(default=(), compare=False, repr=False)
    """Further answers of the solver, the next best first; none of them is saved."""

    def __post_init__(self) -> None:
        islands = tuple(dict(island) for island in self.islands if island)
        object.__setattr__(self, "islands", islands)
        object.__setattr__(self, "unplaced", tuple(sorted(self.unplaced)))
        object.__setattr__(self, "confidence", dict(self.confidence))
        placed = [i for island in islands for i in island]
        known = placed + list(self.unplaced)
        twice = sorted({i for i in known if known.count(i) > 1})
        if twice:
            raise ValueError(f"fragments with more than one place: {', '.join(twice)}")
        if extra := set(self.confidence) - set(placed):
            raise ValueError(f"confidence for fragments that are not placed: {sorted(extra)}")
        for i, value in self.confidence.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"the confidence of {i} must lie between 0 and 1, but is {value}")
        if self.puzzle is not None and (odd := set(known) ^ set(self.puzzle.ids)):
            raise ValueError(
                f"the assembly and its puzzle differ in these fragments: {sorted(odd)}"
            )

    @classmethod
    def of(
        cls,
        puzzle: Puzzle,
        *islands: Mapping[str, Pose],
        confidence: Mapping[str, float] | None = None,
        provenance: Provenance | None = None,
    ) -> Assembly:
        """An assembly of `puzzle`; every fragment in no island is unplaced."""
        placed = {i for island in islands for i in island}
        return cls(
            islands=tuple(islands),
            unplaced=tuple(i for i in puzzle.ids if i not in placed),
            confidence=confidence or {},
            provenance=provenance or Provenance("unknown"),
            puzzle=puzzle,
        )

    @property
    def poses(self) -> dict[str, Pose]:
        """Every placed fragment's pose, each in the frame of its own island."""
        return {i: pose for island in self.islands for i, pose in island.items()}

    def renamed(self, names: Mapping[str, str], puzzle: Puzzle | None = None) -> Assembly:
        """The same assembly with other fragment ids."""
        return replace(
            self,
            islands=tuple(
                {names[i]: pose for i, pose in island.items()} for island in self.islands
            ),
            unplaced=tuple(names[i] for i in self.unplaced),
            confidence={names[i]: value for i, value in self.confidence.items()},
            puzzle=puzzle,
            alternatives=tuple(each.renamed(names, puzzle) for each in self.alternatives),
        )

    def save(
        self,
        folder: str | PathLike[str],
        *,
        force: bool = False,
        formats: Iterable[str] | None = None,
    ) -> Path:
        """Writes the assembly in every format into `folder`, all or nothing.

        Args:
            force: replace what is in the folder.
            formats: only these; see `reassembly.io.writers.FORMATS`.
        """
        from reassembly.io.writers import save_assembly

        return save_assembly(self, folder, force=force, formats=formats)

    @classmethod
    def load(cls, path: str | PathLike[str], puzzle: Puzzle | None = None) -> Assembly:
        """Reads an `assembly.json`, or the folder that holds one."""
        from reassembly.io.writers import load_assembly

        return load_assembly(path, puzzle)
