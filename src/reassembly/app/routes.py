"""Projects, pieces, hypotheses, edits, pictures and the stream, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from reassembly.app import schema
from reassembly.app.bench import Workbench
from reassembly.app.operations import Id, Sha, State
from reassembly.app.pictures import picture_file, view_png
from reassembly.app.store import Missing
from reassembly.app.stream import as_text

__all__ = ["ERRORS", "PieceId", "ProjectId", "bench", "router"]

ERRORS: dict[int | str, dict[str, object]] = {
    code: {"model": schema.Problem} for code in (401, 403, 404, 409, 413, 422)
}
FOREVER = "public, max-age=31536000, immutable"
router = APIRouter(prefix="/api", responses=ERRORS)
ProjectId = Annotated[Id, Path(alias="project")]
HypothesisId = Annotated[Id, Path(alias="hypothesis")]
PieceId = Annotated[Id, Path(alias="piece")]
Revision = Annotated[int, Path(ge=0, le=2**53)]


def bench(request: Request) -> Workbench:
    """The workspace that this server has open."""
    found: Workbench = request.app.state.bench
    return found


@router.get("/projects")
def list_projects(request: Request) -> list[schema.ProjectSummary]:
    """Every project, the last changed first."""
    return bench(request).store.projects()


@router.post("/projects", status_code=201)
def make_project(request: Request, wanted: schema.NewProject) -> schema.Project:
    """A new project with an empty hypothesis."""
    store = bench(request).store
    return store.project(store.add_project(wanted.name, draft=wanted.draft))


@router.post("/demo")
def open_demo(request: Request) -> schema.Project:
    """The painted puzzle to play with, made where it is missing."""
    open_bench = bench(request)
    return _whole(open_bench, open_bench.demo())


@router.get("/projects/{project}", response_model=schema.Project)
def get_project(request: Request, project: ProjectId) -> Response:
    """A project with all but the placements."""
    open_bench = bench(request)
    text = open_bench.store.project_text(project)
    jobs = ",".join(job.model_dump_json() for job in open_bench.jobs.of_project(project))
    return _json(f'{text.removesuffix("}")},"jobs":[{jobs}]}}')


@router.patch("/projects/{project}")
def change_project(
    request: Request, project: ProjectId, wanted: schema.ProjectChange
) -> schema.Project:
    """Another name or note."""
    bench(request).store.change_project(project, wanted)
    return _whole(bench(request), project)


@router.delete("/projects/{project}", status_code=204)
def delete_project(request: Request, project: ProjectId) -> None:
    """Removes a project with its history."""
    bench(request).delete_project(project)


@router.get("/projects/{project}/pieces", response_model=list[schema.Piece])
def list_pieces(request: Request, project: ProjectId) -> Response:
    """Every piece of a project."""
    found = bench(request).store.pieces(project)
    return _json(f"[{','.join(piece.model_dump_json() for piece in found)}]")


@router.get("/projects/{project}/pieces/{piece}")
def get_piece(request: Request, project: ProjectId, piece: PieceId) -> schema.Piece:
    """One piece."""
    return bench(request).store.piece(project, piece)


@router.get("/projects/{project}/hypotheses")
def list_hypotheses(request: Request, project: ProjectId) -> list[schema.HypothesisSummary]:
    """Every hypothesis of a project."""
    return bench(request).store.hypotheses(project)


@router.post("/projects/{project}/hypotheses", status_code=201)
def make_hypothesis(
    request: Request, project: ProjectId, wanted: schema.NewHypothesis
) -> schema.Hypothesis:
    """An empty hypothesis, or a branch of another one."""
    store = bench(request).store
    return store.hypothesis(project, store.add_hypothesis(project, wanted))


@router.get("/projects/{project}/hypotheses/{hypothesis}", response_model=schema.Hypothesis)
def get_hypothesis(request: Request, project: ProjectId, hypothesis: HypothesisId) -> Response:
    """A hypothesis with its placements."""
    return _json(bench(request).store.hypothesis_text(project, hypothesis))


@router.patch("/projects/{project}/hypotheses/{hypothesis}")
def rename_hypothesis(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.Rename
) -> schema.Hypothesis:
    """Another name."""
    store = bench(request).store
    store.rename_hypothesis(project, hypothesis, wanted.name)
    return store.hypothesis(project, hypothesis)


@router.delete("/projects/{project}/hypotheses/{hypothesis}", status_code=204)
def delete_hypothesis(request: Request, project: ProjectId, hypothesis: HypothesisId) -> None:
    """Removes a hypothesis with its history; the last one stays."""
    bench(request).delete_hypothesis(project, hypothesis)


@router.post("/projects/{project}/hypotheses/{hypothesis}/edits")
def edit(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.Edit
) -> schema.EditResult:
    """Does operations, all or none; durable when answered."""
    if any(operation.op == "picture" for operation in wanted.operations):
        raise Missing("operation for a page; a mask is repaired by sending it")
    return bench(request).store.edit(
        project,
        hypothesis,
        wanted.operations,
        author=wanted.author,
        client=wanted.client,
        summary=wanted.summary,
        token=wanted.token,
    )


@router.post("/projects/{project}/hypotheses/{hypothesis}/undo")
def undo(
    request: Request, project: ProjectId, hypothesis: HypothesisId, who: schema.Who
) -> schema.EditResult:
    """Takes the last edit back."""
    return bench(request).store.undo(project, hypothesis, who)


@router.post("/projects/{project}/hypotheses/{hypothesis}/redo")
def redo(
    request: Request, project: ProjectId, hypothesis: HypothesisId, who: schema.Who
) -> schema.EditResult:
    """Does again what was last undone."""
    return bench(request).store.redo(project, hypothesis, who)


@router.post("/projects/{project}/hypotheses/{hypothesis}/restore")
def restore(
    request: Request, project: ProjectId, hypothesis: HypothesisId, wanted: schema.Restore
) -> schema.EditResult:
    """Goes back to an old revision, as a new one."""
    return bench(request).store.restore(project, hypothesis, wanted)


@router.get("/projects/{project}/hypotheses/{hypothesis}/history")
def history(
    request: Request,
    project: ProjectId,
    hypothesis: HypothesisId,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[schema.Event]:
    """Who did what and when, the newest first."""
    return bench(request).store.history(project, hypothesis, before, limit)


@router.get("/projects/{project}/hypotheses/{hypothesis}/revisions/{revision}")
def get_revision(
    request: Request, project: ProjectId, hypothesis: HypothesisId, revision: Revision
) -> State:
    """The placements as they once were."""
    return bench(request).store.state_at(project, hypothesis, revision)


@router.get("/pictures/{sha}/{name}", response_class=FileResponse)
def get_picture(
    request: Request,
    sha: Sha,
    name: Literal[
        "full.png", "photo.png", "mask.png", "256.webp", "512.webp", "1024.webp", "2048.webp"
    ],
) -> Response:
    """A picture, which never changes."""
    images = bench(request).images
    path = picture_file(images, sha, "full.png" if name in {"photo.png", "mask.png"} else name)
    if not path.is_file():
        raise Missing("picture")
    headers = {"cache-control": FOREVER}
    if name == "photo.png":
        return Response(view_png(images, sha, "photo"), media_type="image/png", headers=headers)
    if name == "mask.png":
        return Response(view_png(images, sha, "mask"), media_type="image/png", headers=headers)
    kind = "image/webp" if name.endswith(".webp") else "image/png"
    return FileResponse(path, media_type=kind, headers=headers)


@router.get(
    "/projects/{project}/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream(
    request: Request,
    project: ProjectId,
    after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Every change of a project as it happens; with `after`, what was missed comes first."""
    from starlette.concurrency import run_in_threadpool

    open_bench = bench(request)
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        after = min(int(last_event_id), 2**53)
    # Joined before looking, so that nothing falls between.
    queue = open_bench.hub.join(project)
    try:
        current = await run_in_threadpool(open_bench.store.sequence, project)
        active = await run_in_threadpool(_active_jobs, open_bench, project)
        missed = None
        if after is not None:
            missed = await run_in_threadpool(open_bench.store.missed, project, after)
    except BaseException:
        open_bench.hub.leave(project, queue)
        raise
    first = [as_text(("hello", None, {"sequence": current, "jobs": active}))]
    seen = current
    if missed:
        first += [as_text(message) for message in missed]
        seen = max(sequence or 0 for _, sequence, _ in missed)
    elif missed is None and after is not None:
        first.append(as_text(("reset", current, {})))

    async def body() -> AsyncIterator[str]:
        try:
            for text in first:
                yield text
            async for text in open_bench.hub.messages(project, queue, seen):
                yield text
        finally:
            open_bench.hub.leave(project, queue)

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(body(), media_type="text/event-stream", headers=headers)


def _whole(open_bench: Workbench, project: str) -> schema.Project:
    return open_bench.store.project(project).model_copy(
        update={"jobs": open_bench.jobs.of_project(project)}
    )


def _active_jobs(open_bench: Workbench, project: str) -> list[dict[str, object]]:
    jobs = open_bench.jobs.of_project(project, most=100, states=("queued", "running"))
    return [job.model_dump(mode="json") for job in jobs]


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
