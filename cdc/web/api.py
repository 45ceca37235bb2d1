"""The REST API, `/api/v1`: JSON in and out, and errors as `{"error": {"type", "message", "where", "hint"}}`.

| request | answer |
|---|---|
| GET /api/v1/pipelines | all pipelines in short |
| GET /api/v1/pipelines/NAME | one with its options, runs and status document, without the lists below |
| GET /api/v1/pipelines/NAME/tables?q=&page=&size= | its tables |
| GET /api/v1/pipelines/NAME/batches | its last batches with their phases, and points for plots |
| GET /api/v1/pipelines/NAME/schemas?table= | schemas of the sink's tables, with their versions |
| GET /api/v1/pipelines/NAME/errors | its last errors with hints, and schema changes that were not applied |
| GET /api/v1/pipelines/NAME/plan | what a run would begin with, as text; connects to source and sink |
| GET /api/v1/pipelines/NAME/log?last= | lines of its log |
| GET /api/v1/pipelines/NAME/verify | the last comparison with the source that was asked for here |
| POST /api/v1/pipelines/NAME/ACTION | start, stop, drain, savepoint, verify; resync, pause, resume of `{"table": T}` |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cdc.errors import NotNow
from cdc.status.model import to_object
from cdc.status.schemas import schema_history
from cdc.web.actions import ACTIONS, Desk
from cdc.web.views import Shown, Views, summary, whole

_MOST = 1000


class Api:
    """The handlers; each raises CdcError, which the application makes into an answer."""

    def __init__(self, desk: Desk, views: Views) -> None:
        self._desk, self._views = desk, views

    def routes(self) -> list[Route]:
        """Where they are."""
        one = "/api/v1/pipelines/{name}"
        reading = {
            "tables": self.tables, "batches": self.batches, "schemas": self.schemas, "errors": self.errors,
            "plan": self.plan, "log": self.log, "verify": self.verify,
        }  # fmt: skip
        return [
            Route("/api/v1/pipelines", self.pipelines),
            *(Route(f"{one}/{part}", handler) for part, handler in reading.items()),
            *(Route(f"{one}/{action}", self.act, methods=["POST"]) for action in ACTIONS),
            Route(one, self.pipeline),
        ]

    def pipelines(self, request: Request) -> Response:
        """All in short."""
        return JSONResponse({"pipelines": [summary(shown) for shown in self._views.all()]})

    def pipeline(self, request: Request) -> Response:
        """One of them."""
        return JSONResponse(whole(self._one(request)))

    def tables(self, request: Request) -> Response:
        """A page of its tables."""
        found = _document(self._one(request)).get("tables", [])
        query = request.query_params.get("q", "").casefold()
        found = [table for table in found if query in table["table"].casefold()]
        number, size = _number(request, "page", 0), min(_MOST, max(1, _number(request, "size", 100)))
        shown = found[number * size : (number + 1) * size]
        return JSONResponse({"total": len(found), "page": number, "size": size, "tables": shown})

    def batches(self, request: Request) -> Response:
        """Its last batches, and points."""
        document = _document(self._one(request))
        return JSONResponse({name: document.get(name, []) for name in ("batches", "points")})

    def schemas(self, request: Request) -> Response:
        """The sink's tables with their versions."""
        history = schema_history(Path(self._one(request).view.state_dir))
        chosen = request.query_params.get("table")
        tables = {
            table: [asdict(version) for version in versions]
            for table, versions in history.items()
            if chosen in (None, table)
        }
        return JSONResponse({"tables": tables})

    def errors(self, request: Request) -> Response:
        """Its last errors, newest first, and the schema changes that were not applied."""
        shown = self._one(request)
        changes = [each for each in _document(shown).get("schema_changes", []) if each["outcome"] != "applied"]
        return JSONResponse({"errors": [asdict(error) for error in shown.errors], "schema_changes": changes})

    def plan(self, request: Request) -> Response:
        """What a run would begin with."""
        return JSONResponse({"plan": plan_text(self._one(request))})

    def log(self, request: Request) -> Response:
        """Lines of its log, oldest first."""
        last = min(_MOST, max(1, _number(request, "last", 100)))
        return JSONResponse({"log": [asdict(line) for line in self._desk.control.log(name_in(request), last)]})

    def verify(self, request: Request) -> Response:
        """The last comparison of its sink with its source."""
        found = self._desk.verifications.of(self._one(request).view.name)
        return JSONResponse({"verify": None if found is None else asdict(found)})

    async def act(self, request: Request) -> Response:
        """Do something to it."""
        fields, what = _fields(await request.body()), request.url.path.rpartition("/")[2]
        said = await run_in_threadpool(ACTIONS[what], self._desk, name_in(request), fields)
        return JSONResponse({"done": what, "message": said})

    def _one(self, request: Request) -> Shown:
        return self._views.one(name_in(request))


def plan_text(shown: Shown) -> str:
    """The plan of a pipeline's file as it is now. Connects to source and sink. Raises CdcError."""
    from cdc.api import plan

    return str(plan(shown.view.file))


def name_in(request: Request) -> str:
    """The pipeline's name in the path, which is percent-encoded there: it may have slashes."""
    return unquote(request.path_params["name"])


def _document(shown: Shown) -> dict[str, Any]:
    return {} if shown.status is None else to_object(shown.status)


def _number(request: Request, key: str, default: int) -> int:
    given = request.query_params.get(key, "")
    return int(given[:9]) if given.isascii() and given.isdigit() else default


def _fields(body: bytes) -> Mapping[str, str]:
    if not body:
        return {}
    try:
        fields = json.loads(body)
        json.dumps(fields, ensure_ascii=False).encode()  # half of a letter is none
    except (ValueError, RecursionError) as error:
        raise NotNow(
            f"the request is not JSON: {error}", hint='send an object, such as {"table": "shop.orders"}'
        ) from error
    if not isinstance(fields, dict):
        raise NotNow("the request is not a JSON object", hint='send one, such as {"table": "shop.orders"}')
    return {str(key): str(value) for key, value in fields.items()}
