"""Options models to JSON Schemas (`schemas/`) and to the option reference (`docs/options.md`).

`make schemas` rewrites both; a test keeps them fresh. Beyond what pydantic gives, a schema
accepts what the reader accepts (`port: "3306"`, `EVOLVE`), and `errorMessage` holds the sentence that `cdc validate`
prints (some editors show it too).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cdc import registry
from cdc.options import Block, Options
from cdc.registry import Role
from cdc.spec.block_schema import DRAFT, block_schema, options_schema
from cdc.spec.functions import FunctionBlock
from cdc.spec.model import PipelineOptions, RouteRule, TransformRule
from cdc.spec.models import ModelBlock, ModelOptions, NamedModel
from cdc.spec.sinks import NAME, OWN_OPTIONS
from cdc.spec.spark import SparkOptions

_HEAD = """# Options

Generated from the options models by `make schemas`; edit those, not this page.

A pipeline file has the blocks `source`, `sink`, `transform`, `route` and `pipeline`. A relative path starts at the
folder of the pipeline file. Durations are written `30s`, `10 min` or `500 ms` (a bare number is milliseconds), sizes
`64 mb` or `1 GiB` (a bare number is bytes). `${NAME}` takes a value from the environment, `${file:path}` from a file;
`$${` is a plain `${`. Options marked *secret* are never printed. A sink of [a list](several-sinks.md) has a `name`,
and may have its own `route`, `schema.change.behavior`, `schema.change.lost-values` and `existing-rows`.
"""


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema of the whole file; connectors are in files of their own, chosen by `type`."""
    rules = {"type": "array", "items": block_schema(RouteRule), "errorMessage": "must be a list of rules"}
    return {
        "$schema": DRAFT,
        "title": "cdc pipeline",
        "description": "A change data capture pipeline: one source, one sink, and what happens on the way.",
        "type": "object",
        "properties": {
            "source": _connector_schema("source"),
            "sink": _sinks_schema(),
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
    models = {"type": ["array", "object"], "items": _model_schema(), "errorMessage": "must be a list of models"}
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
    for role, name, model in connectors():
        yield f"schemas/{role}s/{name}.json", _json(options_schema(model, f"{role} {name}"))
    yield "docs/options.md", option_reference(connectors())


def main() -> int:
    """Rewrite the generated files of this checkout. Returns the exit code."""
    root = Path(__file__).resolve().parent.parent
    for path, text in documents():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return 0


def connectors() -> Iterator[tuple[Role, str, type[Options]]]:
    roles: tuple[Role, ...] = ("source", "sink")
    for role in roles:
        for name in registry.names(role):
            model = registry.options(role, name)
            if model.__module__.startswith("connectors."):
                yield role, name, model


def _connector_schema(role: Role) -> dict[str, Any]:
    names = [name for which, name, _ in connectors() if which == role]
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


def _sinks_schema() -> dict[str, Any]:
    """One sink, or a list of named ones, with options of its connector and those it may have for itself."""
    one = _connector_schema("sink")
    named = {
        "type": "object",
        "properties": {"name": {"description": "What the sink is known by."}, "type": one["properties"]["type"]},
        "required": ["name", "type"],
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": _listed(name, model)}
            for role, name, model in connectors()
            if role == "sink"
        ],
    }
    listed = {"type": "array", "items": named, "minItems": 1}
    return {"description": one["description"], "if": {"type": "array"}, "then": listed, "else": one}


def _listed(name: str, model: type[Options]) -> dict[str, Any]:
    """A sink of a list: the options are where those of the one sink are, so each has one description."""
    schema = block_schema(model)
    file, options = f"sinks/{name}.json", schema["properties"].keys() - {"name"}
    own = {key: {"$ref": f"#/properties/pipeline/properties/{key}"} for key in OWN_OPTIONS}
    return {
        "properties": {"name": {"type": "string", "pattern": f"^{NAME.pattern}$"}}
        | {key: {"$ref": f"{file}#/properties/{key}"} for key in schema["properties"] if key in options}
        | {"route": {"$ref": "#/properties/route"}, **own},
        "patternProperties": schema.get("patternProperties", {}),
        "required": schema["required"],
        "additionalProperties": False,
    }


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def option_reference(models: Iterable[tuple[str, str, type[Options]]]) -> str:
    """The whole page as Markdown."""
    parts = [_HEAD]
    for role, name, model in models:
        parts.append(_section(f"{role} `{name}`", model))
    parts.append(_section("`route` rules", RouteRule))
    parts.append(_section("`transform` rules", TransformRule))
    parts.append(_section("`pipeline`", PipelineOptions))
    parts.append(_section("functions in `pipeline.user-defined-function`", FunctionBlock))
    parts.append(_section("models in `pipeline.model`, as functions", ModelBlock))
    parts.append(_section("models in `pipeline.model`, by name", NamedModel))
    parts.append(_section("`options` of a model by name", ModelOptions))
    return "\n".join(parts)


def _section(title: str, model: type[Block]) -> str:
    schema = block_schema(model)
    lines = [f"## {title[0].upper()}{title[1:]}", "", str(schema["description"]), ""]
    lines += ["| option | default | meaning |", "|---|---|---|"]
    for key, node in schema["properties"].items():
        if key not in model.flink_only and key not in model.flink_refused:
            lines.append(_row(key, node, required=key in schema["required"]))
    if issubclass(model, Options | SparkOptions):
        lines += [f"| `{prefix}*` | | {_cell(meaning)} |" for prefix, meaning in model.prefixes.items()]
    lines.append("")
    if model.flink_only:
        lines += ["Accepted from Flink CDC files and ignored, with a warning:", ""]
        lines += [f"- `{key}`: {reason}" for key, reason in model.flink_only.items()]
        lines.append("")
    if model.flink_refused:
        lines += ["Refused, as ignoring them would give other rows or values:", ""]
        lines += [f"- `{key}`: {instead}" for key, instead in model.flink_refused.items()]
        lines.append("")
    return "\n".join(lines)


def _row(key: str, node: dict[str, Any], *, required: bool) -> str:
    default = "required" if required else _format_default(node.get("default"))
    rule = str(node.get("errorMessage", "")).removeprefix("must be ")
    meaning = str(node.get("description", ""))
    words = rule.removeprefix("one of ").split(", ") if rule.startswith("one of ") else []
    if rule.startswith("a whole number from") or not all(f"`{word}`" in meaning for word in words):
        meaning = f"{meaning} {rule[0].upper()}{rule[1:]}."
    if node.get("writeOnly"):
        meaning += " *Secret.*"
    return f"| `{key}` | {default} | {_cell(meaning)} |"


def _format_default(default: Any) -> str:
    if default is None:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


if __name__ == "__main__":
    sys.exit(main())
