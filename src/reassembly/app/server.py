"""The workbench's server: one process, one workspace, one page."""

from __future__ import annotations

import asyncio
import errno
import gc
import mimetypes
import secrets
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from reassembly._version import __version__
from reassembly.app.bench import Workbench, default_workspace
from reassembly.app.join_routes import router as joins_router
from reassembly.app.routes import router
from reassembly.app.safety import Guard, is_loopback
from reassembly.app.store import Conflict, Missing
from reassembly.app.work_routes import MAX_UPLOAD_BYTES, too_many_files
from reassembly.app.work_routes import router as work_router
from reassembly.app.worker import UNWRITTEN
from reassembly.errors import InputError
from reassembly.io.files import disk_error

__all__ = ["create_app", "serve"]

STATIC = Path(__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""Said here, since on Windows any program may have told the system otherwise."""
ELSEWHERE = {errno.EADDRNOTAVAIL, getattr(errno, "WSAEADDRNOTAVAIL", errno.EADDRNOTAVAIL)}
"""What the system says of an address that it does not have."""
OTHER_HOSTS = (
    "Leave --host out for this machine alone, or open it to the network with --host 0.0.0.0"
)

TOO_MANY_FILES = "Too many files"
"""What the parser of forms says, which counts before we do."""

EVERYWHERE = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}
"""Hosts that stand for every address of the machine, and addresses outside it that nobody has
(RFC 5737, RFC 3849)."""


def create_app(bench: Workbench, *, host: str = "127.0.0.1", token: str | None = None) -> FastAPI:
    """The application for an open workspace.

    Args:
        host: the address that it will be reached under.
        token: what every request must bring along; None for none.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        bench.hub.open(asyncio.get_running_loop())
        bench.jobs.start()
        gc.freeze()  # What is imported stays: no edit is to wait while garbage is sought in it.
        yield
        bench.close()

    app = FastAPI(
        title="reassembly workbench",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.bench = bench
    for part in (router, work_router, joins_router):
        app.include_router(part)
    _answer_errors(app)

    for suffix, kind in KINDS.items():
        mimetypes.add_type(kind, suffix)
    app.mount("/", _Page(directory=STATIC, html=True), name="page")
    app.add_middleware(Guard, host=host, token=token, upload_bytes=MAX_UPLOAD_BYTES)
    return app


class _Page(StaticFiles):
    """The built page, asked for anew each time: its files keep their names when they change."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = "no-cache"
        return response


def _answer_errors(app: FastAPI) -> None:
    def problem(status: int, what: str, remedy: str) -> JSONResponse:
        # Whatever cannot be written as UTF-8 came from the request, and is not worth repeating.
        safe = [text.encode("utf-8", "replace").decode() for text in (what, remedy)]
        return JSONResponse({"what": safe[0], "remedy": safe[1]}, status)

    @app.exception_handler(InputError)
    async def _(request: Request, error: InputError) -> JSONResponse:
        name = "" if error.path is None else f"{Path(error.path).name}: "
        return problem(422, f"{name}{error.what}", error.remedy)

    @app.exception_handler(Missing)
    async def _(request: Request, error: Missing) -> JSONResponse:
        return problem(404, str(error), "Reload the page")

    @app.exception_handler(Conflict)
    async def _(request: Request, error: Conflict) -> JSONResponse:
        return problem(409, error.what, error.remedy)

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return problem(422, f"{place[:200]}: {first['msg']}", "Correct the request")

    @app.exception_handler(OperationalError)
    async def _(request: Request, error: OperationalError) -> JSONResponse:
        what = f"the workspace cannot be read or written ({error.orig})"
        return problem(503, what, "Make room on its disk, and see that nobody else has it open")

    @app.exception_handler(OSError)
    async def _(request: Request, error: OSError) -> JSONResponse:
        if (told := disk_error(error)) is None:
            raise error
        return problem(503, told.what, UNWRITTEN)

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> JSONResponse:
        what = f"this failed inside the program ({type(error).__name__})"
        return problem(
            500, what, "This is our fault: please report it with what the server printed"
        )

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> JSONResponse:
        if str(error.detail).startswith(TOO_MANY_FILES):
            return problem(422, too_many_files().what, too_many_files().remedy)
        remedies = {404: "Check the address", 405: "Check the address", 413: "Send less"}
        remedy = remedies.get(error.status_code, "Correct the request")
        answer = problem(error.status_code, str(error.detail).lower(), remedy)
        answer.headers.update(error.headers or {})
        return answer


def serve(
    workspace: Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    browser: bool = True,
    demo: bool = False,
    say: Any = print,
) -> None:
    """Opens a workspace and serves it until interrupted.

    Args:
        workspace: a folder, made if it is missing; the person's own by default.
        host: an address of this machine. Others than loopback ones ask for a token.
        port: 0 lets the system choose.
        browser: open the page.
        demo: have a painted puzzle in the workspace.
        say: called with lines for the terminal.
    """
    folder = default_workspace() if workspace is None else workspace
    listener = _listen(host, port)
    bench = Workbench(folder)
    shown = bench.demo() if demo else None
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    way = "" if token is None else f"/?token={token}"
    if shown is not None:
        way += f"{'/' * (token is None)}#/p/{shown}"
    url, *others = (address + way for address in _addresses(host, listener.getsockname()[1]))
    config = uvicorn.Config(
        create_app(bench, host=host, token=token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=64 << 10,
        ws="none",
    )
    server = _Server(config, bench)
    say(f"The workbench is at {url} (Ctrl-C stops)")
    for other in others:
        say(f"Where that name is not known, it is at {other}")
    say(f"Its workspace is {bench.folder}")
    if browser:
        threading.Timer(0.5, webbrowser.open, [url]).start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        say("The workbench has stopped; everything is saved")


class _Server(uvicorn.Server):
    """Ends the streams first when it is to stop, since it waits for every connection."""

    def __init__(self, config: uvicorn.Config, bench: Workbench) -> None:
        super().__init__(config)
        self.bench = bench

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.bench.hub.close()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything else is done."""
    if not host.strip():
        raise InputError("--host names no address", OTHER_HOSTS)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, since only then asyncio sends small answers at once.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) in ELSEWHERE:
            raise InputError(
                f"cannot listen on {host}: it is no address of this machine",
                OTHER_HOSTS,
            ) from error
        raise InputError(
            f"cannot listen on {host}, port {port} ({error})",
            "Choose another with --port, or stop the program that uses it",
        ) from error
    return listener


def _addresses(host: str, port: int) -> list[str]:
    """Where others find the page: by the machine's name and by its number, if it listens to all."""
    names = [host]
    if host in EVERYWHERE:
        number = _own_number(host)
        names = [socket.gethostname(), *([] if number is None else [number])]
    return [f"http://{f'[{name}]' if ':' in name else name}:{port}" for name in names]


def _own_number(host: str) -> str | None:
    """This machine's address on its network; None where there is no network."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((EVERYWHERE[host], 9))  # Chooses a way, and sends nothing.
            return str(probe.getsockname()[0])
    except OSError:
        return None
