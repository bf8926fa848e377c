"""What the paper shows: its tables and its figure, row by row, with the published figures.

All figures are from *ReassembleNet: Learnable Keypoints and Diffusion for 2D Fresco Reconstruction*
(Islam, Fiorini, James, Morerio, Del Bue; ICCV 2025) and its supplement. What they measure is told
in docs/metrics.md: they are printed to stand beside ours, and are no targets. Rows that the paper
does not have are ours, and have no published figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "BEYOND",
    "FEATURES",
    "MADE",
    "PARTS",
    "REPAIR",
    "REPAIR_FRAGMENTS",
    "REPAIR_PUZZLES",
    "REPAIR_SPLIT",
    "SCALABILITY",
    "SELECTORS",
    "SIZES",
    "TUNED",
    "Part",
    "Published",
    "Row",
]

REPAIR = "RePAIR"
"""The data set of real fragments; every other name of a data set is a preset of made puzzles."""
MADE = ("paper", "realistic", "pairingnet")
REPAIR_PUZZLES, REPAIR_FRAGMENTS = 121, 957
REPAIR_SPLIT = {"train": 97, "test": 24}
TUNED = "tuned-"
"""How the names of recipes that fine-tune begin."""


@dataclass(frozen=True)
class Published:
    """Figures as printed."""

    q_pos: float | None = None
    rotation_deg: float | None = None
    translation: float | None = None
    """Printed as mm, computed in hundredths of the canvas; see docs/metrics.md."""
    memory_mb: float | None = None
    """Of training, on an NVIDIA A100 with 40 GB."""
    note: str = ""
    """In the place of figures: out of memory, or not printed."""

    def text(self) -> str:
        """`0.35 / 55.01 / 16.12`: q_pos, rotation, translation."""
        values = (self.q_pos, self.rotation_deg, self.translation)
        if all(value is None for value in values):
            return self.note or "–"
        return " / ".join("–" if value is None else _printed(value) for value in values)


def _printed(value: float) -> str:
    """With two decimals, or with three where there are."""
    text = f"{value:.3f}"
    return text.removesuffix("0")


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    label: str
    solver: str
    """A name from `available_solvers`."""
    recipe: str | None = None
    """Name of the weights it needs; None for those that come with the solver, or none."""
    group: str = ""
    published: Published | None = None
    keypoints: int | None = None

    @property
    def key(self) -> str:
        """Under which it is measured, once for all tables."""
        return self.recipe or self.solver

    @property
    def tuned(self) -> bool:
        """Whether its weights were fine-tuned on RePAIR."""
        return self.key.startswith(TUNED)


@dataclass(frozen=True)
class Part:
    """A table, or a figure with its table."""

    name: str
    title: str
    source: str
    """Where the paper has it; empty where it does not."""
    about: str
    data: tuple[str, ...] = ()
    """`RePAIR`, or presets of made puzzles; a table each, the paper's own first."""
    rows: tuple[Row, ...] = ()
    open: bool = False
    """Whether solvers of other packages get a row, too."""


BEYOND = "beyond the paper"
AS_SHIPPED = Row("ReassembleNet as shipped, our sampling", "reassemblenet", None, BEYOND)
PLAIN, LEARNED, FINE_TUNED = (
    "not learned",
    "learned, without fine-tuning",
    "learned, fine-tuned on RePAIR",
)
SELECTORS = {
    "fps": "ReassembleNet, farthest point sampling",
    "frozen": "ReassembleNet, frozen selector",
    "learnable": "ReassembleNet, learnable selector",
}
OUT_OF_MEMORY = Published(note="out of memory")


def _table_1() -> Iterator[Row]:
    for label, solver, q_pos, deg, mm in (
        ("Derech et al.", "derech", 0.04, 80.96, 139.49),
        ("genetic", "genetic", 0.05, 85.63, 151.71),
        ("greedy, geometric", "greedy", 0.02, 76.99, 135.95),
    ):
        yield Row(label, solver, None, PLAIN, Published(q_pos, deg, mm))
    learned = (
        ("DiffAssemble", "diffassemble", (0.10, 131.36, 283.55), (0.10, 123.42, 280.76)),
        ("PairingNet", "pairingnet", (0.16, 98.45, 390.43), (0.13, 91.54, 364.62)),
        ("PuzzleFusion", "puzzlefusion", None, None),
        (SELECTORS["fps"], "fps", (0.35, 55.01, 16.12), (0.16, 42.98, 18.11)),
        (SELECTORS["frozen"], "frozen", (0.39, 51.96, 26.67), (0.17, 39.12, 18.41)),
        (SELECTORS["learnable"], "learnable", (0.27, 47.61, 19.16), (0.21, 32.91, 17.18)),
    )
    for group, prefix, column in ((LEARNED, "", 2), (FINE_TUNED, TUNED, 3)):
        for entry in learned:
            label, recipe, figures = entry[0], entry[1], entry[column]
            solver = "reassemblenet" if recipe in SELECTORS else recipe
            printed = OUT_OF_MEMORY if figures is None else Published(*figures)
            yield Row(label, solver, prefix + recipe, group, printed)
    yield AS_SHIPPED


def _semi_synthetic() -> Iterator[Row]:
    for label, solver, recipe, figures in (
        ("DiffAssemble", "diffassemble", "diffassemble", (0.309, 122.92, 73.79)),
        ("PairingNet", "pairingnet", "pairingnet", (0.179, 60.11, 266.84)),
        ("PuzzleFusion", "puzzlefusion", "puzzlefusion", None),
        (SELECTORS["fps"], "reassemblenet", "fps", (0.17, 40.43, 16.91)),
        (SELECTORS["frozen"], "reassemblenet", "frozen", (0.14, 36.02, 14.69)),
        (SELECTORS["learnable"], "reassemblenet", "learnable", (0.15, 35.79, 15.58)),
    ):
        printed = OUT_OF_MEMORY if figures is None else Published(*figures)
        yield Row(label, solver, recipe, "learned", printed)
    for label, solver in (
        ("Derech et al.", "derech"),
        ("genetic", "genetic"),
        ("greedy, geometric", "greedy"),
    ):
        yield Row(label, solver, None, PLAIN)
    yield AS_SHIPPED


FEATURES = {
    "none": "coordinates alone",
    "geometry": "geometry",
    "global": "global texture",
    "local": "local texture",
}
"""What a keypoint is described by, besides all together, and its name in recipes."""


def _features() -> Iterator[Row]:
    printed = {
        "": {
            "fps-none": (0.18, 64.51, 80.19),
            "frozen-none": (0.23, 62.45, 33.82),
            "fps-geometry": (0.17, 59.76, 17.76),
            "frozen-geometry": (0.22, 43.11, 22.03),
            "fps-global": (0.14, 63.24, 32.30),
            "frozen-global": (0.22, 62.95, 24.42),
            "fps-local": (0.27, 64.08, 19.75),
            "frozen-local": (0.28, 49.58, 23.11),
            "fps": (0.35, 55.01, 16.12),
            "frozen": (0.39, 51.96, 26.67),
            "learnable": (0.27, 47.61, 19.16),
        },
        TUNED: {
            "fps-none": (0.27, 53.47, 28.74),
            "frozen-none": (0.15, 51.95, 21.63),
            "fps-geometry": (0.21, 56.27, 17.76),
            "frozen-geometry": (0.15, 41.74, 20.92),
            "fps-global": (0.19, 59.07, 23.43),
            "frozen-global": (0.13, 58.97, 23.26),
            "fps-local": (0.20, 61.83, 17.64),
            "frozen-local": (0.15, 45.46, 16.68),
            "fps": (0.16, 42.98, 18.11),
            "frozen": (0.17, 39.12, 18.41),
            "learnable": (0.21, 32.91, 17.18),
        },
    }
    for prefix, rows in printed.items():
        group = "transfer learning" if prefix else "no transfer learning"
        for recipe, figures in rows.items():
            selector, _, features = recipe.partition("-")
            label = f"{selector}, {FEATURES[features] if features else 'all features'}"
            yield Row(label, "reassemblenet", prefix + recipe, group, Published(*figures))


def _keypoints() -> Iterator[Row]:
    for k, memory, figures in (
        (3, 22630, (0.07, 103.26, 50.89)),
        (5, 24791, (0.10, 86.74, 37.42)),
        (10, 28434, (0.14, 78.91, 23.37)),
        (15, 34209, (0.17, 67.61, 24.25)),
        (20, 36701, (0.27, 47.61, 19.16)),
        (25, None, None),
        (50, None, None),
        (100, None, None),
    ):
        printed = None if k > 25 else OUT_OF_MEMORY
        if figures is not None:
            printed = Published(*figures, memory_mb=memory)
        yield Row(f"k = {k}", "reassemblenet", f"keypoints-{k}", published=printed, keypoints=k)


def _data_creation() -> Iterator[Row]:
    for preset, label, figures in (
        ("pairingnet", "clean cuts, as PairingNet makes them (`pairingnet`)", (0.18, 56.54, 26.42)),
        ("paper", "eroded and shifted, as the paper makes them (`paper`)", (0.21, 32.91, 17.18)),
        ("realistic", "worn as real pieces are (`realistic`)", None),
    ):
        for prefix, group in (("", LEARNED), (TUNED, FINE_TUNED)):
            printed = Published(*figures) if figures and prefix else None
            yield Row(label, "reassemblenet", f"{prefix}data-{preset}", group, printed)


SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of pieces: the paper's, and on."""
SCALABILITY = {2: 0.8, 4: 0.9, 8: 0.98, 16: 1.1, 32: 1.3, 64: 1.9, 128: 4.4}
"""GB of GPU memory that ReassembleNet is said to need, by the number of pieces."""


PARTS = {
    part.name: part
    for part in (
        Part(
            "repair",
            "Real fragments: RePAIR",
            "Table 1",
            "All systems on real fragments, without and with fine-tuning.",
            (REPAIR,),
            tuple(_table_1()),
            open=True,
        ),
        Part(
            "semi-synthetic",
            "Semi-synthetic puzzles",
            "supplement, 'Results on Semi-Synthetic dataset'",
            "All systems on made puzzles of the paper's kind. None of them was trained on these. "
            "Q_pos is in the source of the published table, but hidden in print.",
            ("paper",),
            tuple(_semi_synthetic()),
            open=True,
        ),
        Part(
            "features",
            "Features, selector, transfer learning",
            "supplement, 'Ablation on ReassembleNet settings'",
            "What the denoiser is told about a keypoint, how keypoints are selected, and whether "
            "the weights were fine-tuned on RePAIR. 'Geometry' is curvature and edge angle and, "
            "beyond the paper, the outline around a keypoint.",
            (REPAIR, "paper"),
            tuple(_features()),
        ),
        Part(
            "keypoints",
            "Number of keypoints",
            "'Comparison of the parameter k'",
            "Learnable selector, no fine-tuning. The published memory is that of training on a "
            "GPU; ours is that of the solver's process.",
            (REPAIR, "paper"),
            tuple(_keypoints()),
        ),
        Part(
            "data-creation",
            "How training puzzles are made",
            "'Results on the impact of the Semi-Synthetic Dataset Creation process'",
            "The same network (farthest point sampling), trained on puzzles of one kind each. The "
            "published rows are those of the learnable selector, fine-tuned.",
            (REPAIR, "realistic", "paper"),
            tuple(_data_creation()),
        ),
        Part(
            "scalability",
            "Number of pieces",
            "figure 'GPU memory consumption as a function of the number of puzzle pieces'",
            "Peak memory and time of one puzzle of so many pieces, each solver in a process of its "
            "own. The published figures are GB of GPU memory of ReassembleNet.",
            open=True,
        ),
        Part(
            "time",
            "Time",
            "",
            "Seconds for a puzzle of nine pieces, each solver in a process of its own: from the "
            "first import to a solver that is ready, and from its fragments to its answer.",
            open=True,
        ),
    )
}
