"""`/openapi.json`: the REST API as an OpenAPI 3.1 document, generated from the router's tables.

Format: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter

from cdc.serve.control import LogLine, PipelineView
from cdc.status.model import StatusDocument
from cdc.web.actions import ACTIONS, Action
from cdc.web.endpoints import BASE, ENDPOINTS, Endpoint, QueryParameter

_REF = "#/components/schemas/{model}"
_OBJECT = {"type": "object"}
_NAME = {
    "name": "name", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "`pipeline.name`, or else the file's name; percent-encoded.",
}  # fmt: skip
_REFUSALS = {
    400: "The request is malformed.", 401: "The token is missing or wrong.",
    403: "Refused: read-only, or from another site.", 404: "No such pipeline.",
    409: "Not possible in the pipeline's current state.", 413: "The request is too long.",
    421: "The Host is not a name of this server.", 502: "The source, the sink or the state refused.",
}  # fmt: skip


@cache
def openapi() -> dict[str, Any]:
    """Return the document as JSON values."""
    everything = {"get": _operation("pipelines", "Summaries of all pipelines", _OBJECT)}
    reads = {f"{BASE}/{{name}}{'/' * bool(each.part)}{each.part}": {"get": _read(each)} for each in ENDPOINTS}
    paths: dict[str, Any] = {BASE: everything, **reads}
    for name, action in ACTIONS.items():
        paths.setdefault(f"{BASE}/{{name}}/{name}", {})["post"] = _post(name, action)
    return {
        "openapi": "3.1.0",
        "info": {"title": "cdc serve", "version": "1", "description": "Pipelines of a running `cdc serve`."},
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _schemas() -> dict[str, Any]:
    """Return the schemas of values in responses."""
    found: dict[str, Any] = {}
    for model in (PipelineView, LogLine, StatusDocument):
        schema = TypeAdapter(model).json_schema(ref_template=_REF, mode="serialization")
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    texts = {name: {"type": "string"} for name in ("type", "message", "where", "hint")}
    error = {"type": "object", "properties": texts, "required": list(texts)}
    found["Error"] = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    done = {"type": "object", "properties": {"done": {"type": "string"}, "message": {"type": "string"}}}
    return found | {"Done": done}


def _read(endpoint: Endpoint) -> dict[str, Any]:
    answers = {"": _ref("PipelineView"), "log": _list("log", "LogLine")}
    operation = _operation(endpoint.part or "pipeline", endpoint.text, answers.get(endpoint.part, _OBJECT))
    return operation | {"parameters": [_NAME, *(_parameter(each) for each in endpoint.parameters)]}


def _post(name: str, action: Action) -> dict[str, Any]:
    header = {"name": "X-CDC-Request", "in": "header", "schema": {"type": "string"}, "required": False,
              "description": "Any value; needed where the server has no token."}  # fmt: skip
    operation = _operation(f"{name}-pipeline", action.text, _ref("Done")) | {"parameters": [_NAME, header]}
    if not action.fields:
        return operation
    fields = {field: {"type": "string", "description": "database.table"} for field in action.fields}
    body = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return operation | {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}


def _operation(name: str, text: str, answer: dict[str, Any]) -> dict[str, Any]:
    refusals = {str(code): {"description": why, "content": _json(_ref("Error"))} for code, why in _REFUSALS.items()}
    done = {"200": {"description": "Done.", "content": _json(answer)}}
    return {"operationId": name, "summary": text, "responses": done | refusals}


def _parameter(each: QueryParameter) -> dict[str, Any]:
    number = {"type": "integer", "minimum": each.least, "maximum": each.most, "default": each.default}
    schema = {"type": "string"} if isinstance(each.default, str) else number
    return {"name": each.name, "in": "query", "description": each.text, "schema": schema}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _ref(model: str) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model)}


def _list(name: str, model: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "array", "items": _ref(model)}}}
