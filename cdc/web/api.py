"""The REST API, `/api/v1`: JSON in and out, and errors as `{"error": {"type", "message", "where", "hint"}}`.

| request | answer |
|---|---|
| GET /api/v1/pipelines | summaries of all pipelines |
| GET /api/v1/pipelines/NAME | one pipeline with its options, runs and status document, without the lists below |
| GET /api/v1/pipelines/NAME/tables?q=&page=&size= | its tables |
| GET /api/v1/pipelines/NAME/batches | its last batches with their phases, and points for plots |
| GET /api/v1/pipelines/NAME/schemas?table= | schemas of the sink's tables, with their versions |
| GET /api/v1/pipelines/NAME/errors | its last errors with hints, and schema changes that were not applied |
| GET /api/v1/pipelines/NAME/plan | the plan of a run, as text; connects to source and sink |
| GET /api/v1/pipelines/NAME/log?last= | lines of its log |
| GET /api/v1/pipelines/NAME/verify | the last comparison with the source requested here |
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

from cdc.errors import BadRequest
from cdc.status.model import to_object
from cdc.status.schemas import schema_history
from cdc.web.actions import ACTIONS, Desk
from cdc.web.endpoints import BASE, ENDPOINTS, read_query
from cdc.web.openapi import openapi
from cdc.web.views import Shown, Views, details, summary

_BY_PART = {each.part: each for each in ENDPOINTS}


class Api:
    """The request handlers; each may raise CdcError, which the application turns into a response."""

    def __init__(self, desk: Desk, views: Views) -> None:
        self._desk, self._views = desk, views

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = BASE + "/{name}"
        reading = {
            "tables": self.tables, "batches": self.batches, "schemas": self.schemas, "errors": self.errors,
            "plan": self.plan, "log": self.log, "verify": self.verify,
        }  # fmt: skip
        return [
            Route(BASE, self.pipelines),
            *(Route(f"{one}/{part}", handler) for part, handler in reading.items()),
            *(Route(f"{one}/{action}", self.act, methods=["POST"]) for action in ACTIONS),
            Route(one, self.pipeline),
            Route("/openapi.json", lambda request: JSONResponse(openapi())),
        ]

    def pipelines(self, request: Request) -> Response:
        """Return summaries of all pipelines."""
        read_query(request, ())
        return JSONResponse({"pipelines": [summary(shown) for shown in self._views.all()]})

    def pipeline(self, request: Request) -> Response:
        """Return one pipeline."""
        return JSONResponse(details(self._one(request, "")[0]))

    def tables(self, request: Request) -> Response:
        """Return a page of its tables."""
        of, parameters = self._one(request, "tables")
        query = str(parameters["q"]).casefold()
        found = [table for table in _document(of).get("tables", []) if query in table["table"].casefold()]
        number, size = int(parameters["page"]), int(parameters["size"])
        shown = found[number * size : (number + 1) * size]
        return JSONResponse({"total": len(found), "page": number, "size": size, "tables": shown})

    def batches(self, request: Request) -> Response:
        """Return its last batches, and points for plots."""
        document = _document(self._one(request, "batches")[0])
        return JSONResponse({name: document.get(name, []) for name in ("batches", "points")})

    def schemas(self, request: Request) -> Response:
        """Return the sink's tables with their schema versions."""
        shown, parameters = self._one(request, "schemas")
        history, chosen = schema_history(Path(shown.view.state_dir)), parameters["table"]
        tables = {
            table: [asdict(version) for version in versions]
            for table, versions in history.items()
            if chosen in ("", table)
        }
        return JSONResponse({"tables": tables})

    def errors(self, request: Request) -> Response:
        """Return its last errors, newest first, and the schema changes that were not applied."""
        shown, _ = self._one(request, "errors")
        changes = [each for each in _document(shown).get("schema_changes", []) if each["outcome"] != "applied"]
        return JSONResponse({"errors": [asdict(error) for error in shown.errors], "schema_changes": changes})

    def plan(self, request: Request) -> Response:
        """Return the plan of the pipeline's next run."""
        return JSONResponse({"plan": plan_text(self._one(request, "plan")[0])})

    def log(self, request: Request) -> Response:
        """Return lines of its log, oldest first."""
        shown, parameters = self._one(request, "log")
        lines = self._desk.control.log(shown.view.name, int(parameters["last"]))
        return JSONResponse({"log": [asdict(line) for line in lines]})

    def verify(self, request: Request) -> Response:
        """Return the last comparison of its sink with its source."""
        found = self._desk.verifications.of(self._one(request, "verify")[0].view.name)
        return JSONResponse({"verify": None if found is None else asdict(found)})

    async def act(self, request: Request) -> Response:
        """Execute an action on it."""
        fields, action = _fields(await request.body()), request.url.path.rpartition("/")[2]
        read_query(request, ())
        message = await run_in_threadpool(ACTIONS[action].carry_out, self._desk, name_in(request), fields)
        return JSONResponse({"done": action, "message": message})

    def _one(self, request: Request, part: str) -> tuple[Shown, Mapping[str, str | int]]:
        """Return the requested pipeline, and the query parameters of the endpoint."""
        parameters = _BY_PART[part].query(request)
        return self._views.one(name_in(request)), parameters


def plan_text(shown: Shown) -> str:
    """Plan a pipeline's current file. Connects to source and sink. Raises CdcError."""
    from cdc.api import Pipeline, load, plan

    sink = shown.view.spec.get("sink_name")
    return str(plan(Pipeline(load(shown.view.file).checked.with_sink(str(sink) if sink else None))))


def name_in(request: Request) -> str:
    """Return the pipeline's name in the path, where it is percent-encoded as it may have slashes."""
    return unquote(request.path_params["name"])


def _document(shown: Shown) -> dict[str, Any]:
    return {} if shown.status is None else to_object(shown.status)


def _fields(body: bytes) -> Mapping[str, str]:
    if not body:
        return {}
    try:
        fields = json.loads(body)
        json.dumps(fields, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"the request is not JSON: {error}", hint='send an object, such as {"table": "shop.orders"}'
        ) from error
    if not isinstance(fields, dict):
        raise BadRequest("the request is not a JSON object", hint='send one, such as {"table": "shop.orders"}')
    for key, value in fields.items():
        if not isinstance(value, str):
            raise BadRequest("must be a text", where=f"field {key}", hint='such as {"table": "shop.orders"}')
    return fields
