"""The web application: pages, the API, metrics, static files, and the guard in front of them."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cdc.errors import BadRequest, CdcError, NotNow, PipelineUnknown, TableUnknown
from cdc.serve.control import Control
from cdc.serve.hints import for_a_server
from cdc.status.metrics import CONTENT_TYPE, metrics_text
from cdc.status.schemas import schema_history
from cdc.web import pages
from cdc.web.actions import ACTIONS, Desk, act_on_several
from cdc.web.api import Api, name_in, plan_text
from cdc.web.guard import API, Guard, Logins, same_site_path
from cdc.web.plots import RANGES
from cdc.web.settings import WebSettings
from cdc.web.templating import Visitor, link, render
from cdc.web.verifying import Verifications
from cdc.web.views import Views

_LOG_LINES: Final = 40
_MOST_MESSAGES: Final = 100
_MOST_CHOSEN: Final = 2_000
"""Maximum fields of a form: the list of pipelines has one for each selected pipeline."""
_STATUS: Final[Mapping[type[CdcError], int]] = {PipelineUnknown: 404, TableUnknown: 404, NotNow: 409, BadRequest: 400}
"""HTTP status by error; others are 502: the source, the sink or the state refused."""


def create_app(control: Control, settings: WebSettings) -> Starlette:
    """Create the application of a running server. Raises EngineError for settings that would admit anyone."""
    settings.check()
    sessions, views = Logins(settings), Views(control)
    desk = Desk(control, Verifications(control))
    site = Site(desk, views, settings, sessions)
    metrics = metrics_text(views.documents)
    one = "{name}"
    static = StaticFiles(directory=Path(str(files("cdc.web"))) / "static")
    return Starlette(
        routes=[
            Route("/", site.overview),
            Route(f"/pipelines/{one}", site.detail),
            Route(f"/schemas/{one}", site.schemas),
            Route(f"/plan/{one}", site.plan),
            Route(f"/actions/{one}", site.act, methods=["POST"]),
            Route("/bulk", site.bulk, methods=["POST"]),
            Route("/login", site.login, methods=["GET", "POST"]),
            Route("/logout", site.logout, methods=["POST"]),
            Route("/metrics", lambda request: Response(metrics(), media_type=CONTENT_TYPE)),
            Route("/healthz", lambda request: PlainTextResponse("ok\n")),
            *Api(desk, views).routes(),
            Mount("/static", static),
        ],
        middleware=[
            Middleware(Guard, settings=settings, sessions=sessions),
            Middleware(GZipMiddleware, minimum_size=1000),
        ],
        exception_handlers={CdcError: site.failed, HTTPException: no_such_address},
    )


class Site:
    """The handlers of the pages. Read-only handlers run in a thread each."""

    def __init__(self, desk: Desk, views: Views, settings: WebSettings, sessions: Logins) -> None:
        self._desk, self._views, self._settings, self._sessions = desk, views, settings, sessions
        self._messages: dict[str, str] = {}

    def _visitor(self, request: Request) -> Visitor:
        session = request.state.session
        return Visitor(self._sessions.form_token(session), self._settings.read_only, bool(session))

    def overview(self, request: Request) -> Response:
        """Show all pipelines."""
        message = self._messages.pop(request.query_params.get("said", ""), "")
        return _respond_timed(lambda: pages.overview(self._views.all(), self._visitor(request), message))

    def detail(self, request: Request) -> Response:
        """Show one pipeline."""
        name, parameters = name_in(request), request.query_params
        written = parameters.get("page", "")
        number = int(written[:6]) if written.isascii() and written.isdigit() else 0
        verified = self._desk.verifications.of(name)
        span = parameters.get("range", "") if parameters.get("range", "") in RANGES else "20min"
        message = self._messages.pop(parameters.get("said", ""), "")
        query, visitor = parameters.get("q", "")[:200], self._visitor(request)

        def page() -> str:
            shown, log = self._views.one(name), self._desk.control.log(name, _LOG_LINES)
            return pages.pipeline(shown, visitor, query, number, log, message, verified, span)

        return _respond_timed(page)

    def schemas(self, request: Request) -> Response:
        """Show the sink's tables with their history."""
        name, parameters, visitor = name_in(request), request.query_params, self._visitor(request)
        history, chosen = schema_history(Path(self._views.one(name).view.state_dir)), parameters.get("table", "")
        if chosen:
            return HTMLResponse(pages.schema(name, visitor, history.get(chosen, ()), chosen))
        return HTMLResponse(pages.schemas(name, visitor, history, parameters.get("q", "")[:200]))

    def plan(self, request: Request) -> Response:
        """Show the plan of the pipeline's next run; connects to source and sink, which may take seconds."""
        name, visitor = name_in(request), self._visitor(request)
        text = plan_text(self._views.one(name))
        return HTMLResponse(render("plan.html", visitor, [(name, link(name))], name=name, plan=text))

    async def act(self, request: Request) -> Response:
        """Execute the action of a form, and redirect to the pipeline's page with a message."""
        fields = await self._form(request)
        name, action = name_in(request), fields.get("action", "")
        if action not in ACTIONS:
            raise BadRequest(f"there is no action {action!r}", where=name)
        message = await run_in_threadpool(ACTIONS[action].carry_out, self._desk, name, _of_action(fields))
        return RedirectResponse(f"{link(name)}?said={self._store_message(message)}", 303)

    async def bulk(self, request: Request) -> Response:
        """Start or stop the pipelines selected in the list, and redirect back to it with a message."""
        body = await request.body()
        fields = await self._form(request)
        action, names = fields.get("action", ""), _form_values(body).get("name", [])
        if action not in ("start", "stop"):
            raise BadRequest(f"there is no action {action!r} for several pipelines")
        message = await run_in_threadpool(act_on_several, self._desk, action, names)
        return RedirectResponse(f"/?said={self._store_message(message)}", 303)

    def _store_message(self, message: str) -> str:
        """Store a message for the next page; return its id for the address."""
        while len(self._messages) > _MOST_MESSAGES:
            del self._messages[next(iter(self._messages))]
        token = secrets.token_urlsafe(9)
        self._messages[token] = message
        return token

    async def login(self, request: Request) -> Response:
        """Show the login form, or begin a session when the token is correct."""
        if request.method == "GET":
            return _login_form(same_site_path(request.query_params.get("next", "/")))
        fields = _fields(await request.body())
        target = same_site_path(fields.get("next", "/"))
        if not self._settings.token or not self._sessions.right(fields.get("token", "")):
            return _login_form(target, failed=True)
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            self._sessions.cookie, self._sessions.begin(), httponly=True, samesite="strict",
            secure=request.url.scheme == "https", path="/",
        )  # fmt: skip
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session."""
        await self._form(request)
        self._sessions.end(request.state.session)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(self._sessions.cookie, path="/")
        return answer

    async def _form(self, request: Request) -> dict[str, str]:
        """Read a form and check its token. Raises NotNow for a form of another session."""
        fields = _fields(await request.body())
        if not hmac.compare_digest(fields.get("csrf", "").encode(), self._visitor(request).form_token.encode()):
            raise NotNow("the form is of an earlier session", hint="load the page again, and send it once more")
        return fields

    async def failed(self, request: Request, error: Exception) -> Response:
        """Show an error as a page, or as JSON for the API."""
        assert isinstance(error, CdcError), "registered for this class only"
        name = name_in(request) if "name" in request.path_params else ""
        for_a_server(error, name)
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 502)
        if request.url.path.startswith(API):
            body = {"type": error.class_name, "message": error.message, "where": error.where, "hint": error.hint}
            return JSONResponse({"error": body}, status)
        back = link(name) if name and not isinstance(error, PipelineUnknown) else "/"
        return HTMLResponse(render("failed.html", self._visitor(request), error=error, back=back), status)


def _login_form(target: str, failed: bool = False) -> Response:
    """Return the login form, which redirects to `target`."""
    return HTMLResponse(render("login.html", None, target=target, wrong=failed), 401 if failed else 200)


def _respond_timed(page: Callable[[], str]) -> Response:
    """Return a page with its CPU time in milliseconds: the script refreshes costly pages less often."""
    started = time.thread_time()
    text = page()
    return HTMLResponse(text, headers={"Server-Timing": f"page;dur={1000 * (time.thread_time() - started):.1f}"})


async def no_such_address(request: Request, error: Exception) -> Response:
    """Respond to an unknown address or method with a line of text, or with JSON for the API."""
    assert isinstance(error, HTTPException), "registered for this class only"
    if request.url.path.startswith(API):
        body = {"type": "BadRequest", "message": error.detail, "where": request.url.path, "hint": "see /openapi.json"}
        return JSONResponse({"error": body}, error.status_code, error.headers)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)


def _of_action(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Return the fields of a form without those common to all forms."""
    return {name: value for name, value in fields.items() if name not in ("csrf", "action")}


def _fields(body: bytes) -> dict[str, str]:
    """Parse the fields of a form; the first of duplicates counts. Raises BadRequest."""
    return {name: values[0] for name, values in _form_values(body).items()}


def _form_values(body: bytes) -> dict[str, list[str]]:
    """Parse the fields of a form, each with all its values. Raises BadRequest for too many fields."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=_MOST_CHOSEN)
    except ValueError as error:
        raise BadRequest(f"the form cannot be read: {error}", hint="reload the page, and select fewer") from error
