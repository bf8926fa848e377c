"""Files in, jobs, files out, over HTTP."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response, UploadFile
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from reassembly._version import __version__
from reassembly.app import schema
from reassembly.app.bench import Workbench
from reassembly.app.imports import safe_relative_path
from reassembly.app.operations import Id
from reassembly.app.routes import ERRORS, HypothesisId, PieceId, ProjectId, bench
from reassembly.app.store import Conflict, Missing, new_id
from reassembly.app.tasks import default_solver, proposal_operation
from reassembly.app.worker import UNWRITTEN
from reassembly.errors import InputError
from reassembly.io.files import disk_error
from reassembly.io.images import MAX_PIXELS, READABLE_SUFFIXES

__all__ = ["MAX_UPLOAD_BYTES", "router"]

MAX_UPLOAD_BYTES = 4 << 30
MAX_FILES = 1000
"""In one upload; the parser of forms takes no more."""
MAX_MASK_BYTES = 64 << 20
COPY_BYTES = 1 << 20
EXPORT_FORMATS = ["csv", "json", "assembly", "svg", "geojson", "png", "html", "zip"]
MEDIA_TYPES = {
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".geojson": "application/geo+json",
    ".png": "image/png",
    ".html": "text/html; charset=utf-8",
    ".zip": "application/zip",
}
router = APIRouter(prefix="/api", responses=ERRORS)
JobId = Annotated[Id, Path(alias="job")]
UploadId = Annotated[Id, Path(alias="upload")]


@router.get("/about")
def about(request: Request) -> schema.About:
    """The server, its solvers and its limits."""
    return schema.About(
        version=__version__,
        solvers=_solvers(),
        default_solver=default_solver(),
        limits=schema.Limits(
            files=MAX_FILES,
            file_bytes=MAX_UPLOAD_BYTES,
            upload_bytes=MAX_UPLOAD_BYTES,
            pixels=MAX_PIXELS,
            operations=5000,
        ),
        export_formats=EXPORT_FORMATS,
        readable_suffixes=sorted({*READABLE_SUFFIXES, ".zip"}),
    )


@cache
def _solvers() -> list[schema.SolverInfo]:
    from reassembly.solvers import available_solvers

    found = []
    for info in available_solvers().values():
        missing = info.missing_weights()
        needs = f"weights that are not here: {', '.join(missing)}" if missing else None
        if not info.trivial:
            found.append(
                schema.SolverInfo(
                    name=info.name, summary=info.summary, available=not missing, needs=needs
                )
            )
    return found


# Bringing in


def _as_it_was(name: str) -> str:
    """A file's name without what browsers write in a form for quotes and line breaks, and for
    nothing else."""
    return re.sub("%(22|0D|0A)", lambda found: chr(int(found[1], 16)), name)


def too_many_files() -> InputError:
    return InputError(
        f"more than {MAX_FILES} files are too many at once", f"Send up to {MAX_FILES} at a time"
    )


async def _receive(open_bench: Workbench, files: list[UploadFile]) -> tuple[str, list[Any]]:
    """Stores sent files in a new folder, under names that cannot do harm."""
    if len(files) > MAX_FILES:
        raise too_many_files()
    upload_id = new_id()
    folder = open_bench.uploads / upload_id / "files"
    kept: list[dict[str, Any]] = []
    taken: set[str] = set()
    try:
        for file in files:
            path = safe_relative_path(_as_it_was(file.filename or ""))
            if path is None:
                continue
            number = 1
            while path.as_posix().casefold() in taken:
                number += 1
                path = path.with_name(f"{path.stem}-{number}{path.suffix}")
            taken.add(path.as_posix().casefold())
            await run_in_threadpool(_copy, file, folder / path)
            index = len(kept)
            kept.append({"index": index, "name": path.name, "path": path.as_posix()})
    except BaseException:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise
    if not kept:
        raise InputError("no file was sent", "Choose pictures, or a zip of pictures")
    return upload_id, kept


def _copy(file: UploadFile, target: FilePath) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            shutil.copyfileobj(file.file, out, COPY_BYTES)
    except OSError as error:
        if (told := disk_error(error)) is not None:
            raise InputError(told.what, UNWRITTEN) from error
        what = f"a file could not be stored ({error.strerror or type(error).__name__})"
        raise InputError(what, "Rename the file, then try again") from error


@router.post("/projects/{project}/uploads", status_code=201)
async def upload_files(
    request: Request, project: ProjectId, files: list[UploadFile]
) -> schema.Upload:
    """Takes files in, and has them looked at; `imports` makes pieces of them."""
    open_bench = bench(request)
    await run_in_threadpool(open_bench.store.sequence, project)
    upload_id, kept = await _receive(open_bench, files)
    settings = {"upload": upload_id, "files": kept}
    job_id = new_id()
    await run_in_threadpool(open_bench.store.add_upload, project, upload_id, job_id)
    submit = open_bench.jobs.submit
    job = await run_in_threadpool(submit, "inspect", project, None, settings, job_id)
    return schema.Upload(id=upload_id, job=job, files=[])


@router.get("/projects/{project}/uploads/{upload}")
def get_upload(request: Request, project: ProjectId, upload: UploadId) -> schema.Upload:
    """What the sent files are, once they have been looked at."""
    open_bench = bench(request)
    row = open_bench.store.upload(project, upload)
    base = f"/api/projects/{project}/uploads/{upload}/files"
    files = []
    for entry in row.files:
        seen = {**entry, "preview": None}
        if entry.get("preview"):
            seen["preview"] = f"{base}/{entry['index']}/preview.webp"
        files.append(schema.UploadedFile.model_validate(seen))
    return schema.Upload(id=upload, job=open_bench.jobs.get(row.job_id), files=files)


@router.get(
    "/projects/{project}/uploads/{upload}/files/{index}/preview.webp", response_class=FileResponse
)
def get_preview(
    request: Request,
    project: ProjectId,
    upload: UploadId,
    index: Annotated[int, Path(ge=0, le=100_000)],
) -> Response:
    """A sent picture, reduced."""
    open_bench = bench(request)
    row = open_bench.store.upload(project, upload)
    path = open_bench.uploads / row.id / f"{index}.webp"
    if not path.is_file():
        raise Missing("preview")
    return FileResponse(path, media_type="image/webp")


@router.post("/projects/{project}/imports", status_code=202)
def import_files(
    request: Request, project: ProjectId, wanted: schema.ImportRequest
) -> schema.JobStarted:
    """Makes pieces of sent files."""
    open_bench = bench(request)
    open_bench.store.upload(project, wanted.upload)
    if wanted.hypothesis is not None:
        open_bench.store.state(project, wanted.hypothesis)
    settings = wanted.model_dump(mode="json")
    job = open_bench.jobs.submit("import", project, wanted.hypothesis, settings)
    return schema.JobStarted(job=job)


@router.post("/projects/{project}/references", status_code=202)
async def send_reference(
    request: Request, project: ProjectId, file: UploadFile
) -> schema.JobStarted:
    """Takes a picture in that may lie under the pieces."""
    open_bench = bench(request)
    await run_in_threadpool(open_bench.store.sequence, project)
    upload_id, kept = await _receive(open_bench, [file])
    settings = {"upload": upload_id, "path": kept[0]["path"], "name": kept[0]["name"]}
    job = await run_in_threadpool(open_bench.jobs.submit, "reference", project, None, settings)
    return schema.JobStarted(job=job)


@router.post("/projects/import", status_code=202)
async def open_project(request: Request, file: UploadFile) -> schema.JobStarted:
    """Opens an exported project as a new one."""
    open_bench = bench(request)
    upload_id, kept = await _receive(open_bench, [file])
    settings = {"upload": upload_id, "path": kept[0]["path"], "new_project": new_id()}
    job = await run_in_threadpool(open_bench.jobs.submit, "open", None, None, settings)
    return schema.JobStarted(job=job)


# Repair


@router.put(
    "/projects/{project}/hypotheses/{hypothesis}/pieces/{piece}/mask",
    status_code=202,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def send_mask(
    request: Request,
    project: ProjectId,
    hypothesis: HypothesisId,
    piece: PieceId,
    split: bool = False,
    author: Annotated[str, Query(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = "",
    client: Annotated[str, Query(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = "",
) -> schema.JobStarted:
    """Another outline for a piece: a PNG as large as its picture, light where the piece is."""
    open_bench = bench(request)
    await run_in_threadpool(open_bench.store.piece_row, project, piece)
    await run_in_threadpool(open_bench.store.state, project, hypothesis)
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_MASK_BYTES:
            raise InputError("this mask is too large a file", "Send an 8-bit grey PNG")
    upload_id = new_id()
    folder = open_bench.uploads / upload_id / "files"
    await run_in_threadpool(_write, folder, bytes(data))
    settings = {
        "how": "mask",
        "piece": piece,
        "upload": upload_id,
        "split": split,
        "author": author,
        "client": client,
    }
    submit = open_bench.jobs.submit
    return schema.JobStarted(
        job=await run_in_threadpool(submit, "repair", project, hypothesis, settings)
    )


def _write(folder: FilePath, data: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "mask.png").write_bytes(data)


@router.post("/projects/{project}/hypotheses/{hypothesis}/pieces/{piece}/split", status_code=202)
def split_piece(
    request: Request,
    project: ProjectId,
    hypothesis: HypothesisId,
    piece: PieceId,
    wanted: schema.SplitRequest,
) -> schema.JobStarted:
    """Cuts a piece along a line; without one, where it is thin."""
    open_bench = bench(request)
    open_bench.store.piece_row(project, piece)
    open_bench.store.state(project, hypothesis)
    settings = {"how": "split", "piece": piece, **wanted.model_dump(mode="json")}
    return schema.JobStarted(job=open_bench.jobs.submit("repair", project, hypothesis, settings))


@router.post("/projects/{project}/hypotheses/{hypothesis}/merge", status_code=202)
def merge_pieces(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.MergeRequest
) -> schema.JobStarted:
    """Makes one piece of several, as they lie."""
    open_bench = bench(request)
    open_bench.store.state(project, hypothesis)
    if len(set(wanted.pieces)) < len(wanted.pieces):
        raise InputError("a piece is named twice", "Name each piece once")
    for piece in wanted.pieces:
        open_bench.store.piece_row(project, piece)
    settings = {"how": "merge", **wanted.model_dump(mode="json")}
    return schema.JobStarted(job=open_bench.jobs.submit("repair", project, hypothesis, settings))


# Jobs


@router.get("/projects/{project}/jobs")
def list_jobs(request: Request, project: ProjectId) -> list[schema.Job]:
    """The project's last jobs, the newest first."""
    bench(request).store.sequence(project)
    return bench(request).jobs.of_project(project, most=100)


@router.get("/jobs/{job}")
def get_job(request: Request, job: JobId) -> schema.Job:
    """How a job stands."""
    return bench(request).jobs.get(job)


@router.delete("/jobs/{job}")
def cancel_job(request: Request, job: JobId) -> schema.Job:
    """Stops a job, within seconds."""
    return bench(request).jobs.cancel(job)


@router.post("/projects/{project}/hypotheses/{hypothesis}/solve", status_code=202)
def start_solving(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.SolveRequest
) -> schema.JobStarted:
    """Lets a solver propose; what is locked stays."""
    open_bench = bench(request)
    open_bench.store.state(project, hypothesis)
    solver = wanted.solver or default_solver()
    known = {info.name: info for info in _solvers()}
    if solver not in known:
        raise InputError(f"there is no solver {solver}", f"Choose from {', '.join(known)}")
    if not known[solver].available:
        raise InputError(f"solver {solver} needs {known[solver].needs}", "Choose another solver")
    settings = {**wanted.model_dump(mode="json"), "solver": solver}
    return schema.JobStarted(job=open_bench.jobs.submit("solve", project, hypothesis, settings))


@router.post("/jobs/{job}/proposals/{rank}/apply")
def apply_proposal(
    request: Request,
    job: JobId,
    rank: Annotated[int, Path(ge=1, le=1000)],
    wanted: schema.ApplyProposal,
) -> schema.Hypothesis:
    """Takes one of a solver's answers over, here or in a new hypothesis."""
    open_bench = bench(request)
    store = open_bench.store
    row = open_bench.jobs.row(job)
    if row.kind != "solve" or row.project_id is None or row.hypothesis_id is None:
        raise Missing("proposal")
    if row.state != "done" or row.result is None:
        raise Conflict("this job has no answer", "Wait for it, or solve again")
    proposal = next((p for p in row.result["proposals"] if p["rank"] == rank), None)
    if proposal is None:
        raise Missing("proposal")
    project, hypothesis = row.project_id, row.hypothesis_id
    state = store.state(project, hypothesis)
    if wanted.name is not None:
        new = schema.NewHypothesis.model_validate(
            {"name": wanted.name, "from": hypothesis, "client": wanted.client}
        )
        hypothesis = store.add_hypothesis(project, new)
    pieces = {piece.id for piece in store.piece_rows(project) if not piece.discarded}
    if "unplaced" in proposal:  # Answers of earlier versions do not tell what the solver saw.
        pieces &= {*proposal["poses"], *proposal["unplaced"]}
    operation = proposal_operation(state.placements, proposal["poses"], pieces, row.settings)
    store.edit(
        project,
        hypothesis,
        [operation],
        author=wanted.author,
        client=wanted.client,
        kind="solve",
        summary=f"took over proposal {rank} of {row.settings['solver']}",
    )
    return store.hypothesis(project, hypothesis)


@router.post("/projects/{project}/joins", status_code=202)
def start_joins(
    request: Request, project: ProjectId, wanted: schema.JoinsRequest
) -> schema.JobStarted:
    """Searches for candidate joins."""
    open_bench = bench(request)
    open_bench.store.sequence(project)
    settings = wanted.model_dump(mode="json")
    return schema.JobStarted(job=open_bench.jobs.submit("joins", project, None, settings))


# Taking away


@router.post("/projects/{project}/hypotheses/{hypothesis}/exports", status_code=202)
def start_export(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.ExportRequest
) -> schema.JobStarted:
    """Writes a hypothesis, or the whole project, to files."""
    open_bench = bench(request)
    open_bench.store.state(project, hypothesis)
    settings = wanted.model_dump(mode="json")
    return schema.JobStarted(job=open_bench.jobs.submit("export", project, hypothesis, settings))


@router.get("/jobs/{job}/files/{name}", response_class=FileResponse)
def get_export(
    request: Request,
    job: JobId,
    name: Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,40}\.[a-z]{2,8}$")],
) -> Response:
    """An exported file."""
    open_bench = bench(request)
    row = open_bench.jobs.row(job)
    files = (row.result or {}).get("files", []) if row.kind == "export" else []
    path = open_bench.exports / row.id / name
    entry = next((entry for entry in files if entry["name"] == name), None)
    if entry is None or not path.is_file():
        raise Missing("file")
    kind = MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    # As an attachment: a report or drawing is looked at from the disk, never with this server's
    # rights.
    return FileResponse(path, media_type=kind, filename=entry.get("save_as", name))
