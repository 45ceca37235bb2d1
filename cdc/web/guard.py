"""Checks every request, and restricts what browsers may do on our pages.

| attack | defence |
|---|---|
| others on the network | no listening on other addresses without a token, which is compared in constant time |
| another site's page sends forms here | a token in every form, bound to the session; a header for the API; the Origin |
| another site's name resolves to this machine | the Host header has to be one of ours |
| a table's name or an error's text is HTML | everything is escaped, and no inline script runs |
| the page in another site's frame | frame-ancestors 'none' |
| an endless body | it is read up to a limit before the request is processed |
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.web.settings import WebSettings

API: Final = "/api/"
API_HEADER: Final = "x-cdc-request"
"""A header that pages of other sites cannot send; its value does not matter."""
SESSION_S: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 1000
_OPEN: Final = ("/login", "/static/", "/healthz")
_READING: Final = ("GET", "HEAD")
MOST_BODY: Final = 65_536
"""Maximum bytes of a request body: forms and the API's objects have a few hundred."""

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Logins:
    """The sessions of logged-in users. One object per server; a cookie only has the session's key."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._ends: dict[str, float] = {}

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port, as cookies are shared by all ports."""
        return f"cdc_session_{self._settings.port}"

    def right(self, token: str) -> bool:
        """Whether the token is correct, compared in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._settings.token.encode())

    def begin(self) -> str:
        """Create a session and return its key."""
        now = time.monotonic()
        self._ends = {key: end for key, end in list(self._ends.items())[-_MOST_SESSIONS:] if end > now}
        key = secrets.token_urlsafe(32)
        self._ends[key] = now + SESSION_S
        return key

    def end(self, key: str) -> None:
        """End a session."""
        self._ends.pop(key, None)

    def live(self, key: str) -> bool:
        """Whether the session is active."""
        return self._ends.get(key, 0.0) > time.monotonic()

    def form_token(self, key: str) -> str:
        """Return the form token of a session, or of the server without a login."""
        return hmac.new(self._secret, key.encode(), hashlib.sha256).hexdigest()

    def of(self, headers: Headers) -> str:
        """Return the session of a request, empty without one."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found is not None and self.live(found.value) else ""


class Guard:
    """ASGI middleware that refuses invalid requests and adds headers to responses.

    It sets `path` to the path as sent: names are percent-encoded, so that a slash can be part of a name.
    """

    def __init__(self, app: ASGIApp, settings: WebSettings, sessions: Logins) -> None:
        self._app, self._settings, self._sessions = app, settings, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "path": scope["raw_path"].decode("latin-1")} if scope.get("raw_path") else scope
        request, started = Request(scope), False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["cache-control"] = "no-store"
            await send(message)

        try:
            await self._answer(request, receive, sent)
        except asyncio.CancelledError:  # the server ends, and waits for the request no longer
            if not started:
                await _refusal(request, 503, "the server has ended")(scope, receive, sent)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        scope, refused = request.scope, self._check_request(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        try:
            read = await _whole(receive) if request.method not in _READING else receive
        except ClientDisconnect:
            return
        if read is None:
            refused = _refusal(request, 413, f"the request is longer than {MOST_BODY:,} bytes")
            refused.headers["connection"] = "close"
            await refused(scope, receive, send)
            return
        await self._app(scope, read, send)

    def _check_request(self, request: Request) -> Response | None:
        headers, path = request.headers, request.url.path
        if not self._settings.is_own_host(headers.get("host", "")):
            return _refusal(request, 421, "this is not a name of the server (see the option for host names)")
        writes = request.method not in _READING
        origin = headers.get("origin")
        if writes and origin is not None and _netloc(origin).lower() != headers["host"].lower():
            return _refusal(request, 403, "requests from pages of other sites are refused")
        if writes and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refusal(request, 403, "requests from pages of other sites are refused")
        session, bearer = self._sessions.of(headers), self._bearer(headers)
        request.state.session = session
        if self._settings.token and not (session or bearer) and not path.startswith(_OPEN):
            return self._ask_to_log_in(request)
        if writes and path.startswith(API) and not bearer and API_HEADER not in headers:
            return _refusal(request, 403, f"send the header {API_HEADER}, so that pages of other sites cannot do this")
        if writes and self._settings.read_only and path not in ("/login", "/logout"):
            return _refusal(request, 403, "this server is read-only")
        return None

    def _bearer(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return bool(self._settings.token) and scheme.lower() == "bearer" and self._sessions.right(token.strip())

    def _ask_to_log_in(self, request: Request) -> Response:
        if request.method in _READING and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
        refusal = _refusal(request, 401, "log in, or send the token: Authorization: Bearer ...")
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal


async def _whole(receive: Receive) -> Receive | None:
    """Read the request's body up to the limit, and return a `receive` that replays it; None when it is longer.

    Raises ClientDisconnect when the connection ends before the body does.
    """
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            message = {"type": "http.request", "body": body, "more_body": False}
            break
    first: list[Message] = [message]

    async def handed_on() -> Message:
        return first.pop() if first else await receive()

    return handed_on


def _refusal(request: Request, status: int, text: str) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": {"type": "Refused", "message": text, "where": "", "hint": ""}}, status)
    return PlainTextResponse(text + "\n", status)


def same_site_path(path: str) -> str:
    """Return the path if it is one of this server, else `/`."""
    good = path.startswith("/") and not path.startswith(("//", "/\\")) and not _netloc(path)
    return path if good else "/"


def _netloc(url: str) -> str:
    """Return the host and port in a URL; `invalid` for a URL that cannot be parsed."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return "invalid"
