"""What goes over the wire, typed; the page's own types are made after these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from reassembly.app.operations import (
    Id,
    Label,
    Length,
    MmPerPx,
    Operation,
    Planar,
    Sha,
    State,
    Strict,
    Text,
    Title,
)
from reassembly.pose import SAME_DEG, SAME_MM

__all__ = [
    "About",
    "ApplyProposal",
    "Comparison",
    "Difference",
    "Edit",
    "EditResult",
    "Event",
    "ExportRequest",
    "Fit",
    "Gap",
    "Hypothesis",
    "HypothesisSummary",
    "ImportRequest",
    "Job",
    "JobStarted",
    "JoinList",
    "JoinModel",
    "JoinsRequest",
    "Judgement",
    "Keypoints",
    "Limits",
    "MergeRequest",
    "NewHypothesis",
    "NewProject",
    "Overlap",
    "Piece",
    "Problem",
    "Profile",
    "Project",
    "ProjectChange",
    "ProjectSummary",
    "Rename",
    "Restore",
    "Ruler",
    "SamePlace",
    "SolveRequest",
    "SolverInfo",
    "SplitRequest",
    "Spot",
    "Thing",
    "Upload",
    "UploadedFile",
    "Who",
]

Author = Annotated[Label, StringConstraints(max_length=100)]
Pixel = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Revision = Annotated[int, Field(ge=0, le=2**53)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Point = tuple[float, float]
Ring = list[Point]


class Problem(BaseModel):
    """Any error."""

    what: str
    remedy: str


class Who(Strict):
    """Who does something, and in which window."""

    author: Author = ""
    client: Author = ""


class SolverInfo(BaseModel):
    """A solver that can be asked for."""

    name: str
    summary: str
    available: bool
    needs: str | None = None


class Limits(BaseModel):
    """What may be sent."""

    files: int
    file_bytes: int
    upload_bytes: int
    pixels: int
    operations: int


class About(BaseModel):
    """The server."""

    version: str
    solvers: list[SolverInfo]
    default_solver: str
    limits: Limits
    export_formats: list[str]
    readable_suffixes: list[str]


class NewProject(Strict):
    """A project to be made."""

    name: Title
    draft: bool = False
    """For an import: not listed, and soon forgotten, unless it brings pieces in."""


class ProjectChange(Strict):
    """What to change of a project."""

    name: Title | None = None
    note: Text | None = None


class Rename(Strict):
    """A new name."""

    name: Title


class ProjectSummary(BaseModel):
    """A project in the list of all."""

    id: Id
    name: str
    created_at: str
    changed_at: str
    imported_at: str | None
    """When it came out of a project file, if it did."""
    pieces: int
    """Without the discarded ones."""
    hypotheses: int


class Piece(BaseModel):
    """A piece; lengths in its own frame, whose origin is at `origin_px` of its picture."""

    id: Id
    name: str
    inventory: str
    note: str
    provenance: str
    filename: str
    discarded: bool
    mm_per_px: float
    scale_origin: str
    picture: Sha
    width_px: int
    height_px: int
    origin_px: Point
    levels: list[int]
    area_mm2: float
    centroid_mm: Point
    colour: tuple[int, int, int]
    outline_mm: list[Ring]
    warnings: list[str]
    created_at: str


class Judgement(BaseModel):
    """A verdict on a join."""

    first: Id
    second: Id
    pose: Planar
    verdict: Literal["accepted", "rejected", "unsure"]
    author: str
    at: str


class HypothesisSummary(BaseModel):
    """A hypothesis without its placements."""

    id: Id
    name: str
    revision: int
    parent: str | None
    parent_revision: int | None
    created_at: str
    changed_at: str
    can_undo: bool
    can_redo: bool
    placed: int
    confidence: float | None


class Hypothesis(HypothesisSummary):
    """A hypothesis."""

    state: State


class NewHypothesis(Strict):
    """A hypothesis to be made: empty, or branched from another one."""

    name: Title
    source: Id | None = Field(default=None, alias="from")
    revision: Revision | None = None
    author: Author = ""
    client: Author = ""


class Edit(Who):
    """Operations that belong together; all or none are done."""

    operations: list[Operation] = Field(min_length=1, max_length=5000)
    summary: Label | None = None
    token: Author = ""
    """Of the sender's choice: the same one sent again is answered, not done again."""


class Restore(Who):
    """A revision to go back to."""

    revision: Revision


class EditResult(BaseModel):
    """What an edit came to."""

    revision: int
    kind: str
    operations: list[Operation]
    can_undo: bool
    can_redo: bool
    sequence: int


class Event(BaseModel):
    """An entry of the history."""

    revision: int
    at: str
    author: str
    client: str
    kind: str
    summary: str
    operations: list[Operation]
    undone: bool


class Job(BaseModel):
    """Work in another process."""

    id: Id
    project: str | None
    hypothesis: str | None
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    fraction: float
    stage: str
    seconds_left: float | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    interrupted: int
    error: Problem | None
    settings: dict[str, Any]
    result: dict[str, Any] | None


class JobStarted(BaseModel):
    """A job that was just queued."""

    job: Job


class SamePlace(BaseModel):
    """What differs by less in both is the same place to a person, and the same join."""

    mm: float = SAME_MM
    deg: float = SAME_DEG


class Project(BaseModel):
    """A project with all but the placements."""

    id: Id
    name: str
    note: str
    created_at: str
    changed_at: str
    sequence: int
    pieces: list[Piece]
    hypotheses: list[HypothesisSummary]
    judgements: list[Judgement]
    same_place: SamePlace = SamePlace()
    jobs: list[Job]


class Keypoints(BaseModel):
    """Corners of an outline, mm, in the piece's frame."""

    keypoints_mm: list[Point]


class Thing(BaseModel):
    """Something in a photograph, pixels: a point within it, the box around it."""

    x_px: float
    y_px: float
    left_px: int
    top_px: int
    width_px: int
    height_px: int
    area_px: int
    doubt: str | None = None
    """Why it may be no piece."""


class UploadedFile(BaseModel):
    """What a sent file turned out to be."""

    index: int
    name: str
    bytes: int
    kind: str
    width_px: int | None = None
    height_px: int | None = None
    dpi: float | None = None
    mm_per_px: float | None = None
    several: int | None = None
    tray: bool = False
    """Whether every thing in it becomes a piece, unless told otherwise."""
    things: list[Thing] = Field(default_factory=list)
    error: str | None = None
    preview: str | None = None


class Upload(BaseModel):
    """Files that were sent together."""

    id: Id
    job: Job
    files: list[UploadedFile]


class Ruler(Strict):
    """Two points of a photograph, pixels, and how far apart they are."""

    x1_px: Pixel
    y1_px: Pixel
    x2_px: Pixel
    y2_px: Pixel
    length_mm: Annotated[float, Field(gt=0.0, le=1e5, allow_inf_nan=False)]
    file: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """The sent photograph that it was drawn in; may be left out where there is one tray."""


class Spot(Strict):
    """A point of a sent photograph, pixels."""

    file: Annotated[int, Field(ge=0, le=100_000)]
    x_px: Pixel
    y_px: Pixel


class ImportRequest(Who):
    """How to make pieces of sent files."""

    upload: Id
    mode: Literal["auto", "pieces", "tray"] = "auto"
    mm_per_px: MmPerPx | None = None
    rulers: list[Ruler] = Field(default_factory=list, max_length=10)
    refused: list[Spot] | None = Field(default=None, max_length=10_000)
    """On things in trays that are no pieces; None: on whatever looks like a ruler."""
    min_area_mm2: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)] = 25.0
    provenance: Text = ""
    files: list[Annotated[int, Field(ge=0, le=100_000)]] | None = Field(
        default=None, max_length=10_000
    )
    hypothesis: Id | None = None


class SplitRequest(Who):
    """Where to cut a piece in two, in pixels of its picture; None: into its separate parts."""

    line_px: list[tuple[Pixel, Pixel]] | None = Field(default=None, min_length=2, max_length=2000)


class MergeRequest(Who):
    """Pieces that are one, as they lie."""

    pieces: list[Id] = Field(min_length=2, max_length=50)


class SolveRequest(Who):
    """What to solve, and how."""

    solver: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,40}$")] | None = None
    seed: Seed = 0
    scope: Literal["all", "unplaced"] = "all"
    pieces: list[Id] | None = Field(default=None, max_length=5000)
    trust: float = Field(default=0.0, ge=0, le=0.99)
    """Pieces that the solver `joins` is less sure of are left out; at 0 every piece is placed."""
    apply: bool = True


class ApplyProposal(Who):
    """Where a proposal goes: into the job's hypothesis, or into a new one of this name."""

    name: Title | None = None


class JoinsRequest(Who):
    """A search for candidate joins."""

    seed: Seed = 0


class JoinModel(BaseModel):
    """A candidate join; the pose carries the second piece into the first one's frame."""

    id: Id
    first: Id
    second: Id
    pose: Planar
    probability: float
    gap_mm: float
    overlap_mm2: float
    contact_mm: float
    verdict: Literal["accepted", "rejected", "unsure"] | None


class JoinList(BaseModel):
    """Candidate joins, best first."""

    joins: list[JoinModel]
    found_at: str | None
    stale: bool
    """Whether pieces have changed since."""
    settled: bool
    """Whether another search would find the same: neither pieces nor verdicts have changed."""


class Profile(BaseModel):
    """The gap along a joint: (mm along it, mm of gap; below 0 where the pieces overlap)."""

    gap_mm: list[Point]


class ExportRequest(Who):
    """What to write."""

    formats: list[Literal["csv", "json", "assembly", "svg", "geojson", "png", "html", "zip"]] = (
        Field(min_length=1, max_length=16)
    )


class Difference(BaseModel):
    """How two hypotheses differ about one piece."""

    piece: Id
    change: Literal["same", "moved", "only_first", "only_second"]
    distance_mm: float | None = None
    rotation_deg: float | None = None


class Comparison(BaseModel):
    """How two hypotheses differ, once the second is laid over the first."""

    pieces: list[Difference]
    laid_over: Literal["nothing", "locked", "all"]
    """By which pieces; by nothing where both lie in the same place anyway."""
    same_mm: float
    same_deg: float
    """A piece that differs by no more than both is the same."""


class Overlap(BaseModel):
    """Where two placed pieces cover each other, mm on the canvas."""

    first: Id
    second: Id
    area_mm2: float
    rings_mm: list[Ring]


class Gap(BaseModel):
    """How far two placed pieces are apart, and between which points, mm on the canvas."""

    first: Id
    second: Id
    gap_mm: Length
    at_mm: tuple[Point, Point]


class Fit(BaseModel):
    """How the placed pieces meet."""

    overlaps: list[Overlap]
    gaps: list[Gap]
