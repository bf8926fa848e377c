"""What jobs need before they start, and what becomes of their results."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from reassembly._defaults import DEFAULT_SOLVER
from reassembly._version import __version__
from reassembly.app import database as db
from reassembly.app.document import PROJECT_FILE
from reassembly.app.operations import Discard, Operation, Place, Placement, ReplaceAll, SetPicture
from reassembly.app.puzzles import payload_of
from reassembly.app.store import Store
from reassembly.errors import InputError
from reassembly.io.report import CALIBRATED_SOLVERS
from reassembly.pose import wrap_deg

__all__ = ["Tasks", "default_solver", "proposal_operation", "saved_name"]

LONGEST_PART = 40
"""Letters of a project's or hypothesis's name in those of exported files."""

ROUNDING = 1e-6
"""mm or degrees: what differs by less was not moved."""
FIGURES = {"probability", "gap_mm", "overlap_mm2", "contact_mm"}
NO_CONFIDENCE = "This solver does not say how sure it is."
CALIBRATED = (
    "Confidence was calibrated on made puzzles and on 23 real ones of RePAIR; for other material "
    "it is unproven. Take it as a hint of where to look first."
)
UNCALIBRATED = (
    "Confidence is this solver's own measure and not calibrated: 90 % does not mean that nine in "
    "ten are right. Take it as a hint of where to look first."
)


@cache
def default_solver() -> str:
    """That of the whole package where its weights are here, else one that needs none."""
    from reassembly.solvers import available_solvers

    info = available_solvers().get(DEFAULT_SOLVER)
    return DEFAULT_SOLVER if info is not None and not info.missing_weights() else "greedy"


class Tasks:
    """Bridges jobs and the store; its methods run in the server, in a lane's thread."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.images, self.uploads = folder / "images", folder / "uploads"
        self.exports = folder / "exports"
        self.prepare = {
            "inspect": self._inspect,
            "import": self._import,
            "reference": self._reference,
            "repair": self._repair,
            "solve": self._solve,
            "joins": self._joins,
            "export": self._export,
            "open": self._open,
        }
        self.finish = {
            "inspect": self._inspected,
            "import": self._imported,
            "reference": self._referenced,
            "repair": self._repaired,
            "solve": self._solved,
            "joins": self._joined,
            "export": self._exported,
            "open": self._opened,
        }
        self.show = {"solve": self._tried}

    def clean(self, job: db.JobRow) -> None:
        """Removes sent files that nothing needs any more: a failed import may be tried again."""
        again = job.kind == "inspect" or (job.kind == "import" and job.state != "done")
        if "upload" in job.settings and not again:
            shutil.rmtree(self.uploads / job.settings["upload"], ignore_errors=True)

    # Bringing in

    def _inspect(self, job: db.JobRow) -> dict[str, Any]:
        return {**job.settings, "folder": str(self.uploads / job.settings["upload"])}

    def _inspected(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        paths = {entry["index"]: entry["path"] for entry in job.settings["files"]}
        files = [{**entry, "path": paths[entry["index"]]} for entry in result["files"]]
        self.store.set_upload_files(job.settings["upload"], files)
        return {"upload": job.settings["upload"]}

    def _import(self, job: db.JobRow) -> dict[str, Any]:
        settings = job.settings
        upload = self.store.upload(str(job.project_id), settings["upload"])
        if not upload.files:
            raise InputError("these files have not been looked at yet", "Wait a moment")
        return {
            "folder": str(self.uploads / upload.id),
            "files": upload.files,
            "images": str(self.images),
            "job": job.id,
            "chosen": settings["files"],
            "refused": settings.get("refused"),
            **{k: settings[k] for k in ("mode", "mm_per_px", "rulers", "min_area_mm2")},
            "provenance": settings["provenance"],
        }

    def _imported(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        project_id, who = str(job.project_id), _who(job)
        ids = [piece["id"] for piece in result["pieces"]]
        if job.hypothesis_id is None:
            client = who["client"]
            self.store.add_pieces(project_id, result["pieces"], result["pictures"], client)
        else:
            # Brought in as discarded and taken in by the event, so that it can be undone.
            hidden = [{**piece, "discarded": True} for piece in result["pieces"]]
            self.store.edit(
                project_id,
                job.hypothesis_id,
                [Discard(piece=i, discarded=False) for i in ids],
                kind="import",
                summary=f"brought in {len(ids)} piece{'s' * (len(ids) != 1)}",
                pieces=hidden,
                pictures=result["pictures"],
                **who,
            )
        return {"pieces": ids, "warnings": result["warnings"]}

    def _reference(self, job: db.JobRow) -> dict[str, Any]:
        return {
            "path": str(self.uploads / job.settings["upload"] / "files" / job.settings["path"]),
            "name": job.settings["name"],
            "images": str(self.images),
        }

    def _referenced(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        self.store.add_pictures([result.pop("picture_row")])
        return result

    def _open(self, job: db.JobRow) -> dict[str, Any]:
        return {
            "path": str(self.uploads / job.settings["upload"] / "files" / job.settings["path"]),
            "images": str(self.images),
        }

    def _opened(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        project_id = job.settings["new_project"]
        self.store.add_document(project_id, result["document"], result["pictures"])
        return {"project": project_id, "warnings": result["warnings"]}

    # Repair

    def _repair(self, job: db.JobRow) -> dict[str, Any]:
        settings, project_id = job.settings, str(job.project_id)
        payload: dict[str, Any] = {
            "how": settings["how"],
            "job": job.id,
            "images": str(self.images),
        }
        if settings["how"] == "merge":
            return payload | {
                "pieces": self._to_merge(project_id, str(job.hypothesis_id), settings)
            }
        piece = payload_of(self.store.piece_row(project_id, settings["piece"]))
        payload["piece"] = piece
        if settings["how"] == "mask":
            payload["path"] = str(self.uploads / settings["upload"] / "files" / "mask.png")
            payload["split"] = settings["split"]
        else:
            payload["line_px"] = settings["line_px"]
        return payload

    def _to_merge(
        self, project_id: str, hypothesis_id: str, settings: dict[str, Any]
    ) -> list[dict[str, Any]]:
        state = self.store.state(project_id, hypothesis_id)
        merged = []
        for i in settings["pieces"]:
            row = self.store.piece_row(project_id, i)
            placement = state.placements.get(i, Placement())
            if not placement.placed or row.discarded:
                raise InputError(
                    f"{row.name} is not on the canvas", "Place the pieces as they belong first"
                )
            merged.append({**payload_of(row), "placement": placement.model_dump(mode="json")})
        if len({piece["placement"]["island"] for piece in merged}) > 1:
            raise InputError("these pieces lie in different islands", "Put them into one first")
        for piece in merged:
            piece["first_frame_px"] = merged[0]["frame_px"]
        return merged

    def _repaired(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        project_id, hypothesis_id = str(job.project_id), str(job.hypothesis_id)
        settings = job.settings
        if "picture" in result:
            operations: list[Operation] = [
                SetPicture(piece=settings["piece"], picture=result["picture"])
            ]
            kept = [settings["piece"]]
            new: list[dict[str, Any]] = []
            summary = None
        else:
            old = settings["pieces"] if settings["how"] == "merge" else [settings["piece"]]
            new = [{**piece, "discarded": True} for piece in result["pieces"]]
            kept = [piece["id"] for piece in new]
            state = self.store.state(project_id, hypothesis_id)
            lying = state.placements.get(old[0], Placement())
            operations = [
                *(Discard(piece=i, discarded=True) for i in old),
                *(Discard(piece=i, discarded=False) for i in kept),
            ]
            if lying.placed:
                operations += [
                    Place(
                        piece=i,
                        x_mm=lying.x_mm,
                        y_mm=lying.y_mm,
                        rotation_deg=lying.rotation_deg,
                        island=lying.island,
                    )
                    for i in kept
                ]
            word = "merged" if settings["how"] == "merge" else "split"
            summary = f"{word} {len(old)} into {len(kept)}"
        self.store.edit(
            project_id,
            hypothesis_id,
            operations,
            kind="repair",
            summary=summary,
            pieces=new,
            pictures=result["pictures"],
            **_who(job),
        )
        return {"pieces": kept, "warnings": result["warnings"]}

    # Solving

    def _active_pieces(self, project_id: str) -> list[db.PieceRow]:
        return [row for row in self.store.piece_rows(project_id) if not row.discarded]

    def _verdicts(self, project_id: str, among: set[str]) -> dict[str, list[dict[str, Any]]]:
        """Accepted and rejected joins, with their figures where the last search has them. What is
        accepted is certain; what is rejected keeps the probability that it was found with."""
        found: dict[str, list[dict[str, Any]]] = {"accepted": [], "rejected": []}
        listed = self.store.joins(project_id).joins
        for verdict in self.store.judgements(project_id):
            if verdict.verdict in found and {verdict.first, verdict.second} <= among:
                about = verdict.model_dump(include={"first", "second", "pose"})
                figures: dict[str, Any] = next(
                    (
                        join.model_dump(include=FIGURES)
                        for join in listed
                        if join.model_dump(include=set(about)) == about
                    ),
                    {"probability": 0.0},
                )
                certain = {"probability": 1.0} if verdict.verdict == "accepted" else {}
                found[verdict.verdict].append(about | figures | certain)
        return found

    def _solve(self, job: db.JobRow) -> dict[str, Any]:
        project_id, settings = str(job.project_id), job.settings
        state = self.store.state(project_id, str(job.hypothesis_id))
        rows = self._active_pieces(project_id)
        fixed, left_out = _fixed(state.placements, {row.id for row in rows}, settings)
        chosen = [row for row in rows if row.id not in left_out]
        if len(chosen) < 2:
            raise InputError("there are not two pieces to solve", "Bring in or choose more pieces")
        if len(fixed) == len(chosen):
            raise InputError(
                "every piece is held where it is", "Unlock some, or put some back into the tray"
            )
        return {
            "name": project_id,
            "pieces": [payload_of(row) for row in chosen],
            "images": str(self.images),
            "solver": settings["solver"],
            "seed": settings["seed"],
            "fixed": {i: state.placements[i].model_dump() for i in fixed},
            "beside_mm": self._right_of(project_id, state.placements, left_out),
            "trust": settings.get("trust", 0.0),
            # Two fixed pieces are not compared with each other.
            "whole": len(chosen) == len(rows) and len(fixed) < 2,
            "basis": self.store.join_basis(project_id),
            "apart": self._apart(project_id, rows, {row.id for row in chosen}),
            **self._verdicts(project_id, {row.id for row in chosen}),
        }

    def _apart(
        self, project_id: str, rows: Sequence[db.PieceRow], among: set[str]
    ) -> list[list[str]]:
        """Names of the two pieces of accepted joins of which only one takes part."""
        names = {row.id: row.inventory or row.name for row in rows}
        return [
            [names[verdict.first], names[verdict.second]]
            for verdict in self.store.judgements(project_id)
            if verdict.verdict == "accepted"
            and {verdict.first, verdict.second} <= names.keys()
            and len({verdict.first, verdict.second} & among) == 1
        ]

    def _right_of(
        self, project_id: str, placements: Mapping[str, Placement], ids: set[str]
    ) -> tuple[float, float] | None:
        """Right edge and top of what stays on the canvas, roughly: by the pieces' sizes."""
        lying = [i for i in ids if i in placements and placements[i].placed]
        if not lying:
            return None
        size = {
            p.id: max(p.width_px, p.height_px) * p.mm_per_px for p in self.store.pieces(project_id)
        }
        right = max(placements[i].x_mm + size[i] for i in lying)
        top = min(placements[i].y_mm - size[i] / 2 for i in lying)
        return right, top

    def _solved(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        """Each proposal tells how many pieces lie by it (`placed`), and of how many that it was
        `asked` to place it has `laid` down; the ids of those that stay `unplaced`; and of those
        `left` where they are, since a person has locked or moved them meanwhile."""
        project_id, hypothesis_id = str(job.project_id), str(job.hypothesis_id)
        state = self.store.state(project_id, hypothesis_id)
        pieces = [row.id for row in self._active_pieces(project_id)]
        asked = [i for i in pieces if i in result["asked"]]
        revision = None
        shown = []
        for rank, proposal in enumerate(result["proposals"], start=1):
            poses = proposal["poses"]
            # What was brought in meanwhile is no concern of the solver's.
            seen = {i for i in pieces if i in poses or i in asked}
            after = proposal_operation(state.placements, poses, seen, job.settings)
            lies = {i: after.placements.get(i, Placement()) for i in pieces}
            left = [i for i in pieces if i in poses and not _lies_by(poses[i], lies[i])]
            laid = sum(i in poses and i not in left for i in asked)
            shown.append(
                {
                    "rank": rank,
                    "confidence": proposal["confidence"],
                    "placed": sum(i in poses and lies[i].placed for i in pieces),
                    "asked": len(asked),
                    "laid": laid,
                    "unplaced": [i for i in asked if not lies[i].placed],
                    "left": left,
                    "poses": poses,
                    "placements": {
                        i: p.model_dump(mode="json") for i, p in after.placements.items()
                    },
                }
            )
            # An answer that moves nothing is no step of the history.
            moved = any(_differ(state.placements.get(i, Placement()), lies[i]) for i in seen)
            if rank == 1 and moved and job.settings["apply"]:
                revision = self.store.edit(
                    project_id,
                    hypothesis_id,
                    [after],
                    kind="solve",
                    summary=f"solved by {job.settings['solver']}: {laid} piece{'s' * (laid != 1)} "
                    "placed",
                    **_who(job),
                ).revision
        if result["joins"] is not None:
            self.store.set_joins(project_id, result["joins"], *result["basis"])
        sure = any(proposal["confidence"] is not None for proposal in shown)
        return {
            "proposals": shown,
            "applied_revision": revision,
            "confidence_note": _confidence_note(job.settings["solver"]) if sure else NO_CONFIDENCE,
            "warnings": result["warnings"],
        }

    def _tried(self, job: db.JobRow, poses: dict[str, Any]) -> dict[str, Any]:
        """By id, how the pieces that a solver may move would lie if it ended now."""
        project_id = str(job.project_id)
        placements = self.store.state(project_id, str(job.hypothesis_id)).placements
        pieces = {row.id for row in self._active_pieces(project_id)}
        fixed, left_out = _fixed(placements, pieces, job.settings)
        after = proposal_operation(placements, poses, pieces, job.settings).placements
        return {i: after[i].model_dump(mode="json") for i in pieces - fixed - left_out}

    def _joins(self, job: db.JobRow) -> dict[str, Any]:
        project_id = str(job.project_id)
        rows = self._active_pieces(project_id)
        if len(rows) < 2:
            raise InputError("there are not two pieces to join", "Bring in more pieces")
        return {
            "name": project_id,
            "pieces": [payload_of(row) for row in rows],
            "images": str(self.images),
            "seed": job.settings["seed"],
            "basis": self.store.join_basis(project_id),
            **self._verdicts(project_id, {row.id for row in rows}),
        }

    def _joined(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        project_id = str(job.project_id)
        self.store.set_joins(project_id, result["joins"], *result["basis"])
        return {"joins": len(result["joins"]), "warnings": result["warnings"]}

    # Taking away

    def _export(self, job: db.JobRow) -> dict[str, Any]:
        project_id, hypothesis_id = str(job.project_id), str(job.hypothesis_id)
        folder = self.exports / job.id
        shutil.rmtree(folder, ignore_errors=True)
        hypothesis = self.store.hypothesis(project_id, hypothesis_id)
        formats = job.settings["formats"]
        rows = self._active_pieces(project_id)
        if not rows and set(formats) - {"json", "zip"}:
            raise InputError("there is no piece to export", "Bring in pieces first")
        if set(formats) == {"zip"}:
            raise InputError("there is nothing to put into the archive", "Choose other files too")
        joins = self.store.joins(project_id).joins
        judged = [join for join in joins if join.verdict is not None]
        others = [join for join in joins if join.verdict is None][: max(0, 100 - len(judged))]
        return {
            "folder": str(folder),
            "formats": formats,
            "images": str(self.images),
            "name": f"{self.store.project_name(project_id)}: {hypothesis.name}",
            "version": __version__,
            "pieces": [payload_of(row) for row in rows],
            "placements": {
                i: p.model_dump(mode="json") for i, p in hypothesis.state.placements.items()
            },
            "joins": [join.model_dump(mode="json") for join in judged + others],
            "solvers": self.store.solvers_heard(project_id, hypothesis_id),
            "document": self.store.document(project_id) if "json" in formats else None,
        }

    def _exported(self, job: db.JobRow, result: dict[str, Any]) -> dict[str, Any]:
        project_id = str(job.project_id)
        project = self.store.project_name(project_id)
        hypothesis = self.store.hypothesis(project_id, str(job.hypothesis_id)).name
        for entry in result["files"]:
            entry["url"] = f"/api/jobs/{job.id}/files/{entry['name']}"
            # A project file holds every hypothesis.
            of = [project] if entry["name"] == PROJECT_FILE else [project, hypothesis]
            entry["save_as"] = saved_name(*of, entry["name"])
        return result


class _Who(TypedDict):
    author: str
    client: str
    token: str


def _who(job: db.JobRow) -> _Who:
    """Of a job's event, which is one even where the job is done twice."""
    author, client = (job.settings.get(name, "") for name in ("author", "client"))
    return {"author": author, "client": client, "token": job.id}


def saved_name(*parts: str) -> str:
    """A file's name on the disk of whoever takes it away, such as `Wall-report.html`: letters and
    figures of any script, and nothing that a system could take for a path or a command.

    Args:
        parts: of a person's choice, but for the last one.
    """
    *chosen, last = parts
    plain = (re.sub(r"[\W_]+", "-", part).strip("-")[:LONGEST_PART].strip("-") for part in chosen)
    return "-".join([*filter(None, plain), last])


def _confidence_note(solver: str) -> str:
    return CALIBRATED if solver in CALIBRATED_SOLVERS else UNCALIBRATED


def _fixed(
    placements: Mapping[str, Placement], pieces: set[str], settings: Mapping[str, Any]
) -> tuple[set[str], set[str]]:
    """Which pieces a solver must leave where they are, and which it does not see.

    What is held must share one frame, so only the island with most of it takes part.
    """
    chosen = pieces if settings["pieces"] is None else pieces & set(settings["pieces"])
    hold_all = settings["scope"] == "unplaced"
    held = {
        i
        for i in pieces
        if i in placements and placements[i].placed and (placements[i].locked or hold_all)
    }
    count: dict[int, int] = {}
    for i in held:
        island = placements[i].island or 1
        count[island] = count.get(island, 0) + 1
    main = min(count, key=lambda number: (-count[number], number)) if count else None
    fixed = {i for i in held if placements[i].island == main}
    return fixed, pieces - fixed - (chosen - held)


def _lies_by(pose: Mapping[str, Any], placement: Placement) -> bool:
    """Whether a piece lies just as a solver has put it, but for rounding."""
    off = math.hypot(pose["x_mm"] - placement.x_mm, pose["y_mm"] - placement.y_mm)
    turn = abs(wrap_deg(pose["rotation_deg"] - placement.rotation_deg))
    return placement.placed and off < ROUNDING and turn < ROUNDING


def _differ(one: Placement, other: Placement) -> bool:
    """Whether a piece lies elsewhere by the one than by the other, or only by one of them."""
    if not (one.placed and other.placed):
        return one.placed != other.placed
    return not _lies_by(one.model_dump(), other)


def proposal_operation(
    placements: Mapping[str, Placement],
    poses: Mapping[str, Mapping[str, Any]],
    pieces: set[str],
    settings: Mapping[str, Any],
) -> ReplaceAll:
    """A solver's answer laid over what there is.

    Args:
        placements: as they are now.
        poses: where the solver puts pieces; those it saw and did not place go back to the tray.
        pieces: those that it saw, without the discarded ones.
        settings: of the job.
    """
    fixed, left_out = _fixed(placements, pieces, settings)
    free = pieces - fixed - left_out
    after = dict(placements)
    stay = {p.island or 1 for i, p in placements.items() if p.placed and i not in free}
    # An island around fixed pieces keeps their number; the solver's other ones get free numbers.
    numbers = {poses[i]["island"]: placements[i].island or 1 for i in fixed if i in poses}
    for number in sorted({pose["island"] for pose in poses.values()} - numbers.keys()):
        taken = stay | set(numbers.values())
        numbers[number] = next(k for k in range(1, len(taken) + 2) if k not in taken)
    for i in sorted(free):
        pose = poses.get(i)
        place: dict[str, Any] = {"placed": False}
        if pose is not None:
            place = {**pose, "placed": True, "island": numbers[pose["island"]]}
        old = placements.get(i, Placement())
        after[i] = Placement.model_validate({**old.model_dump(), **place})
    return ReplaceAll(placements=after, solver=settings.get("solver"))
