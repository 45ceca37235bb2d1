"""The endpoints of the REST API as data: for the router, the check of query parameters and `/openapi.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from cdc.errors import BadRequest

BASE = "/api/v1/pipelines"
MOST = 1000
"""Maximum rows in one response."""


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A query parameter: text if `default` is text, else a whole number from `least` to `most`."""

    name: str
    text: str
    default: str | int = ""
    least: int = 0
    most: int = 999_999_999

    def read(self, given: str) -> str | int:
        """Parse the value in a request. Raises BadRequest."""
        if isinstance(self.default, str):
            return given
        if given.isascii() and given.isdigit() and len(given) < 10 and self.least <= int(given) <= self.most:
            return int(given)
        raise BadRequest(
            f"{given[:50]!r} is not a whole number from {self.least} to {self.most}",
            where=f"query parameter {self.name}", hint=f"omit it for {self.default}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A GET below a pipeline's address; `part` is empty for the pipeline itself. `text` describes the response."""

    part: str
    text: str
    parameters: tuple[QueryParameter, ...] = ()

    def query(self, request: Request) -> Mapping[str, str | int]:
        """Return all query parameters of a request. Raises BadRequest for unknown or invalid ones."""
        return read_query(request, self.parameters)


def read_query(request: Request, parameters: tuple[QueryParameter, ...]) -> Mapping[str, str | int]:
    """Return the query parameters of a request, with defaults. Raises BadRequest for unknown or invalid ones."""
    known, given = {each.name: each for each in parameters}, request.query_params.multi_items()
    names = [name for name, _ in given]
    for name in names:
        if name not in known or names.count(name) > 1:
            problem = "is given twice" if name in known else "is unknown"
            hint = f"there are: {', '.join(known)}" if known else "this address has none"
            raise BadRequest(problem, where=f"query parameter {name[:50]}", hint=hint)
    return {name: each.default for name, each in known.items()} | {name: known[name].read(v) for name, v in given}


_PAGE = (
    QueryParameter("q", "Only names that contain this text, in upper or lower case."),
    QueryParameter("page", "Number of the page, from 0.", 0),
    QueryParameter("size", "Tables per page.", 100, 1, MOST),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("", "One pipeline, with its options (secrets masked), runs and status document, without the lists below"),
    Endpoint("tables", "Its tables, in pages", _PAGE),
    Endpoint("batches", "The last 50 batches with their phases, and the points of the plots"),
    Endpoint(
        "schemas", "The schemas of the sink's tables, with their versions",
        (QueryParameter("table", "Only this table of the sink."),),
    ),
    Endpoint("errors", "The last errors with hints, and schema changes that were not applied"),
    Endpoint("plan", "The plan of a run, as text; connects to source and sink"),
    Endpoint("log", "The last lines of its log", (QueryParameter("last", "Number of lines.", 100, 1, MOST),)),
    Endpoint("verify", "The last comparison with the source requested here"),
)  # fmt: skip
