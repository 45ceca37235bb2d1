"""Generates the JSON Schema of a block from its model, with the spellings that the reader accepts and messages."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cdc.options import Block, Options
from cdc.spec.spark import SparkOptions
from cdc.units import duration_text, size_text

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_WHOLE_NUMBER = r"^[-+]?(0|[1-9][0-9]*)$"
_UNITS = {"seconds": duration_text, "bytes": size_text}
_CONSTRAINTS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "pattern")


def options_schema(model: type[Options], title: str) -> dict[str, Any]:
    """Return the JSON Schema of a connector's block, as a separate document."""
    return {"$schema": DRAFT, "title": title, **block_schema(model)}


def block_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the self-contained JSON Schema of a block, without references."""
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
        ignored = {name: f"Accepted and ignored: {reason}." for name, reason in model.flink_only.items()}
        refused = {name: f"Refused: {instead}." for name, instead in model.flink_refused.items()}
        for name, description in (ignored | refused).items():
            node = {"description": description, "deprecated": True}
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


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    """Replace `$ref`s into `$defs` by their targets."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _inline({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


def _property(node: dict[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """Convert pydantic's node of an option: relax it to what the reader accepts, and add the message for violations."""
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
        return {key: node[key] for key in ("type", *_CONSTRAINTS, "errorMessage", "unit") if key in node}
    choices = node.get("enum") or ([node["const"]] if "const" in node else None)
    if choices is not None:
        return _enum_schema(choices)
    limits = {key: node[key] for key in _CONSTRAINTS if key in node}
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


def _enum_schema(choices: list[Any]) -> dict[str, Any]:
    spelled = "|".join(_any_case(choice) for choice in choices)
    accepted: list[dict[str, Any]] = [{"enum": choices}, {"type": "string", "pattern": f"^({spelled})$"}]
    if "null" in choices:
        accepted.append({"type": "null"})
    rule = f"must be {choices[0]}" if len(choices) == 1 else f"must be one of {', '.join(choices)}"
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


def _any_case(text: str) -> str:
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c.replace(".", r"\.") for c in text)


def _prefix(prefix: str) -> str:
    return "^" + prefix.replace(".", r"\.")


def _passed(meaning: str) -> dict[str, Any]:
    return {"description": meaning, "type": ["string", "number", "boolean"], "errorMessage": "must be a single value"}


def _without(node: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in keys}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
