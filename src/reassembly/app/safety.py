"""Who may talk to the server: this machine's own pages, or whoever has the token."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "Guard", "is_loopback"]

COOKIE = "reassembly_token"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_BODY_BYTES = 32 << 20
"""Of any request that is not an upload."""
PLAIN = (
    ":root{color-scheme:light dark}"
    "body{max-width:36em;margin:18vh auto;padding:0 24px;"
    'font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}'
    "h1{font-size:1.35em}"
)
"""The style of a page without the workbench's files, which it may not ask for."""


def _digest(text: str) -> str:
    """What allows this text, and no other, inline."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' '{_digest(PLAIN)}'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self' blob: data:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks Host, Origin, token and size of every request, and sets the policy of every answer.

    Args:
        host: the address the server listens on.
        token: demanded of every request, unless None.
        upload_bytes: how much an upload may send.
    """

    def __init__(self, app: ASGIApp, *, host: str, token: str | None, upload_bytes: int) -> None:
        self.app, self.host, self.token, self.upload_bytes = app, host, token, upload_bytes
        self._names = {name.lower() for name in _own_names(host)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        guarded = _with_headers(send)
        problem = self._refusal(scope, headers)
        if problem is not None:
            await _answer(guarded, *problem)
            return
        if self.token is not None:
            given = self._token(scope, headers)
            if given is None or not secrets.compare_digest(given.encode(), self.token.encode()):
                what = "this workbench asks for its token"
                remedy = "Open the address with ?token=... that the server printed when it started"
                answer = _page if "text/html" in headers.get("accept", "") else _answer
                await answer(guarded, 401, what, remedy)
                return
            if _asked_token(scope) is not None:
                await _welcome(guarded, _cookie_name(headers), self.token)
                return
        limit = self.upload_bytes if _is_upload(scope["path"]) else MAX_BODY_BYTES
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            await _answer(guarded, 413, "this is too much at once", f"Send up to {limit >> 20} MB")
            return
        await self.app(scope, _bounded(receive, limit), guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        name = _hostname(f"//{host}")
        if name is None or not self._may_be_called(name):
            what = f"this server does not answer to the name {host[:100]!a}"
            return 403, what, "Use the address that it printed"
        origin = headers.get("origin")
        foreign = origin is not None and _netloc(origin) != host.lower()
        site = headers.get("sec-fetch-site", "none")
        if scope["method"] not in SAFE_METHODS:
            foreign = foreign or site not in {"same-origin", "none"}
        if foreign or (site == "cross-site" and scope["path"].startswith("/api/")):
            return 403, "another site may not use this workbench", "Open its own page"
        return None

    def _may_be_called(self, name: str) -> bool:
        if is_loopback(self.host):
            return name in {*LOOPBACK, self.host}
        if name in self._names or name in LOOPBACK:
            return True
        # Without a name there is no DNS to be turned against us, and the token is asked for.
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _token(self, scope: Scope, headers: dict[str, str]) -> str | None:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return value
        # An address that was printed just now counts more than a cookie of an earlier start.
        if (asked := _asked_token(scope)) is not None:
            return asked
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
        except CookieError:
            cookie = None
        return None if cookie is None else cookie.value


def _asked_token(scope: Scope) -> str | None:
    """The token in the address of the page."""
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return asked[0] if asked and scope["path"] == "/" else None


def _cookie_name(headers: dict[str, str]) -> str:
    """Each port has its own: cookies know no ports, and a machine may have several workbenches."""
    _, _, port = headers.get("host", "").rpartition(":")
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def _own_names(host: str) -> set[str]:
    own = socket.gethostname()
    return {host, own, f"{own}.local", socket.getfqdn()} - {"", "0.0.0.0", "::"}


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc(origin: str) -> str | None:
    """Host and port of an origin, or None."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in {"http", "https"} else None


def _is_upload(path: str) -> bool:
    return path.endswith(("/uploads", "/references", "/mask", "/projects/import"))


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return sending


class TooMuch(HTTPException):
    """A body that goes on beyond its limit."""

    def __init__(self) -> None:
        super().__init__(413, "this is too much at once")


def _bounded(receive: Receive, limit: int) -> Receive:
    """Ends a body that was announced shorter than it is, or not at all."""
    got = 0

    async def receiving() -> Message:
        nonlocal got
        message = await receive()
        if message["type"] == "http.request":
            got += len(message.get("body", b""))
            if got > limit:
                raise TooMuch
        return message

    return receiving


async def _answer(send: Send, status: int, what: str, remedy: str) -> None:
    await _sent(send, status, b"application/json", json.dumps({"what": what, "remedy": remedy}))


async def _page(send: Send, status: int, what: str, remedy: str) -> None:
    """The same for a person who opens an address in a browser."""
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>reassembly</title>'
        f"<style>{PLAIN}</style><h1>{what.capitalize()}</h1><p>{remedy}.</p>"
    )
    await _sent(send, status, b"text/html; charset=utf-8", text)


async def _sent(send: Send, status: int, kind: bytes, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _welcome(send: Send, name: str, token: str) -> None:
    """Keeps the token as a cookie, and out of the address line.

    The cookie also comes along where a link on another page, such as a message, leads here; what
    another site may do with it is decided by Origin and Sec-Fetch-Site.
    """
    cookie = f"{name}={token}; Path=/; HttpOnly; SameSite=Lax"
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
