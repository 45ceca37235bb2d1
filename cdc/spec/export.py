"""Options models to JSON Schemas (`schemas/`) and to the option reference (`docs/options.md`).

`python -m cdc.spec.export` rewrites both in a checkout; a test keeps them fresh. Beyond what pydantic gives, a schema
accepts what the reader accepts (`port: "3306"`, `EVOLVE`), and `errorMessage` holds the sentence that `cdc validate`
prints (some editors show it too).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cdc import registry
from cdc.options import Block, Options
from cdc.registry import Role
from cdc.spec.functions import FunctionBlock
from cdc.spec.model import PipelineOptions, RouteRule, TransformRule
from cdc.spec.models import ModelBlock, ModelOptions, NamedModel
from cdc.spec.spark import SparkOptions
from cdc.units import duration_text, size_text

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_WHOLE_NUMBER = r"^[-+]?(0|[1-9][0-9]*)$"
_UNITS = {"seconds": duration_text, "bytes": size_text}
_KEPT = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "pattern")


def block_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of one block, self-contained: no references."""
    raw = model.model_json_schema(by_alias=True)
    definitions = raw.get("$defs", {})
    properties = {
        name: _property(_inline(node, definitions), exact=name == "type")
        for name, node in raw.get("properties", {}).items()
        if not node.get("internal")
    }
    patterns: dict[str, Any] = {}
    if issubclass(model, Options | SparkOptions):
        patterns |= {_prefix(name): _passed(meaning) for name, meaning in model.prefixes.items()}
    if issubclass(model, Block):
        for name, reason in model.flink_only.items():
            node = {"description": f"Accepted and ignored: {reason}.", "deprecated": True}
            if name.endswith(".*"):
                patterns[_prefix(name[:-1])] = node
            else:
                properties[name] = node
    schema = {
        "description": _first_line(model.__doc__),
        "type": "object",
        "properties": properties,
        "required": sorted(raw.get("required", [])),
        "additionalProperties": False,
    }
    return schema | ({"patternProperties": patterns} if patterns else {})


def options_schema(model: type[Options], title: str) -> dict[str, Any]:
    """The JSON Schema of one connector's block, as a document of its own."""
    return {"$schema": _DRAFT, "title": title, **block_schema(model)}


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema of the whole file; connectors are in files of their own, chosen by `type`."""
    rules = {"type": "array", "items": block_schema(RouteRule), "errorMessage": "must be a list of rules"}
    return {
        "$schema": _DRAFT,
        "title": "cdc pipeline",
        "description": "A change data capture pipeline: one source, one sink, and what happens on the way.",
        "type": "object",
        "properties": {
            "source": _connector_schema("source"),
            "sink": _connector_schema("sink"),
            "route": {"description": "Which sink table a source table goes to.", **rules},
            "transform": {
                "description": "Projections and filters.",
                **rules,
                "items": block_schema(TransformRule),
            },
            "pipeline": _pipeline_block(),
        },
        "required": ["sink", "source"],
        "additionalProperties": False,
    }


def _pipeline_block() -> dict[str, Any]:
    schema = block_schema(PipelineOptions)
    described = {"description": schema["properties"]["user-defined-function"]["description"]}
    functions = {"type": "array", "items": block_schema(FunctionBlock), "errorMessage": "must be a list of functions"}
    schema["properties"]["user-defined-function"] = described | functions
    described = {"description": schema["properties"]["model"]["description"]}
    models = {"type": "array", "items": _model_schema(), "errorMessage": "must be a list of models"}
    schema["properties"]["model"] = described | models
    return schema


def _model_schema() -> dict[str, Any]:
    """A model in one of its two forms."""
    named = block_schema(NamedModel)
    described = {"description": named["properties"]["options"]["description"]}
    named["properties"]["options"] = block_schema(ModelOptions) | described
    is_function = {"anyOf": [{"required": ["model-name"]}, {"required": ["class-name"]}]}
    return {"type": "object", "if": is_function, "then": block_schema(ModelBlock), "else": named}


def documents() -> Iterator[tuple[str, str]]:
    """Every generated file: path from the root of the checkout, and its text."""
    yield "schemas/pipeline.json", _json(pipeline_schema())
    for role, name, model in _connectors():
        yield f"schemas/{role}s/{name}.json", _json(options_schema(model, f"{role} {name}"))
    from cdc.spec.reference import option_reference

    yield "docs/options.md", option_reference(_connectors())


def main() -> int:
    """Rewrite the generated files of this checkout. Returns the exit code."""
    root = Path(__file__).resolve().parent.parent.parent
    for path, text in documents():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return 0


def _connectors() -> Iterator[tuple[Role, str, type[Options]]]:
    roles: tuple[Role, ...] = ("source", "sink")
    for role in roles:
        for name in registry.names(role):
            model = registry.options(role, name)
            if model.__module__.startswith("connectors."):
                yield role, name, model


def _connector_schema(role: Role) -> dict[str, Any]:
    names = [name for which, name, _ in _connectors() if which == role]
    place = "Where changes go to" if role == "sink" else "Where changes come from"
    return {
        "description": f"{place}: `type` says which connector, the other keys are that connector's options.",
        "type": "object",
        "properties": {"type": {"description": "Connector name.", "enum": names}},
        "required": ["type"],
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"$ref": f"{role}s/{name}.json"},
            }
            for name in names
        ],
    }


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    """The node with `$ref`s into `$defs` written out."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _inline({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


def _property(node: dict[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """One option: pydantic's node, relaxed to what the reader accepts, with the sentence for what does not fit."""
    choices = node.get("anyOf", [node])
    shapes = [choice if exact else _relax(choice) for choice in choices if choice.get("type") != "null"]
    described = {"description": node["description"]} if "description" in node else {}
    default = node.get("default")
    if default is not None:
        unit = next((shape["unit"] for shape in shapes if "unit" in shape), "")
        described["default"] = _UNITS[unit](default) if unit in _UNITS else default
    if any(choice.get("writeOnly") for choice in choices):
        described["writeOnly"] = True
    rules = [str(shape["errorMessage"]).removeprefix("must be ") for shape in shapes if "errorMessage" in shape]
    plain = [_without(shape, "errorMessage", "unit", "description", "title", "default") for shape in shapes]
    nullable = len(shapes) < len(choices) and all(plain)
    shape = {"anyOf": [*plain, {"type": "null"}]} if nullable else {"anyOf": plain} if len(plain) > 1 else plain[0]
    return described | shape | _rule(node, rules)


def _rule(node: dict[str, Any], rules: list[str]) -> dict[str, str]:
    if "errorMessage" in node:
        return {"errorMessage": node["errorMessage"]}
    return {"errorMessage": f"must be {' or '.join(rules)}"} if rules else {}


def _relax(node: dict[str, Any]) -> dict[str, Any]:
    if "errorMessage" in node:
        return {key: node[key] for key in ("type", *_KEPT, "errorMessage", "unit") if key in node}
    words = node.get("enum") or ([node["const"]] if "const" in node else None)
    if words is not None:
        return _words(words)
    limits = {key: node[key] for key in _KEPT if key in node}
    match node.get("type"):
        case "string":
            return {"type": ["string", "number"], **limits, "errorMessage": _text_rule(limits)}
        case "integer":
            rule = _integer_rule(limits)
            return {"type": ["integer", "string"], "pattern": _WHOLE_NUMBER, **limits, "errorMessage": rule}
        case "number":
            return {"type": ["number", "string"], **limits, "errorMessage": "must be a number"}
        case "boolean":
            pattern = f"^({_any_case('true')}|{_any_case('false')})$"
            return {"type": ["boolean", "string"], "pattern": pattern, "errorMessage": "must be true or false"}
        case "array":
            items = _relax(node.get("items", {}))
            noun = str(items.get("errorMessage", "")).removeprefix("must be ")
            rule = f"must be a list of {noun}" if noun == "text" else "must be a list"
            return {"type": "array", "items": items, "errorMessage": rule}
        case "object":
            return {"type": "object", "errorMessage": "must be a mapping (`key: value`)"}
    return {}


def _words(words: list[Any]) -> dict[str, Any]:
    spelled = "|".join(_any_case(word) for word in words)
    accepted: list[dict[str, Any]] = [{"enum": words}, {"type": "string", "pattern": f"^({spelled})$"}]
    if "null" in words:
        accepted.append({"type": "null"})
    rule = f"must be {words[0]}" if len(words) == 1 else f"must be one of {', '.join(words)}"
    return {"anyOf": accepted, "errorMessage": rule}


def _text_rule(limits: dict[str, Any]) -> str:
    if "pattern" in limits:
        return f"must be text that fits {limits['pattern']}"
    return "must be text, and not empty" if limits.get("minLength") else "must be text"


def _integer_rule(limits: dict[str, Any]) -> str:
    low, high = limits.get("minimum"), limits.get("maximum")
    if low is not None and high is not None:
        return f"must be a whole number from {low} to {high}"
    return "must be a whole number" if low is None else f"must be a whole number, at least {low}"


def _any_case(word: str) -> str:
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c.replace(".", r"\.") for c in word)


def _prefix(prefix: str) -> str:
    return "^" + prefix.replace(".", r"\.")


def _passed(meaning: str) -> dict[str, Any]:
    return {"description": meaning, "type": ["string", "number", "boolean"], "errorMessage": "must be a single value"}


def _without(node: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in keys}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
