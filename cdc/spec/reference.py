"""The option reference, `docs/options.md`, from the same models as the schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdc.options import Block, Options
from cdc.spec.block_schema import block_schema
from cdc.spec.functions import FunctionBlock
from cdc.spec.model import PipelineOptions, RouteRule, TransformRule
from cdc.spec.models import ModelBlock, ModelOptions, NamedModel
from cdc.spec.spark import SparkOptions

_HEAD = """# Options

Generated from the options models by `make schemas`; edit those, not this page.

A pipeline file has the blocks `source`, `sink`, `transform`, `route` and `pipeline`. A relative path starts at the
folder of the pipeline file. Durations are written `30s`, `10 min` or `500 ms` (a bare number is milliseconds), sizes
`64 mb` or `1 GiB` (a bare number is bytes). `${NAME}` takes a value from the environment, `${file:path}` from a file;
`$${` is a plain `${`. Options marked *secret* are never printed. A sink of [a list](several-sinks.md) has a `name`,
and may have its own `route`, `schema.change.behavior`, `schema.change.lost-values` and `existing-rows`.
"""


def option_reference(connectors: Iterable[tuple[str, str, type[Options]]]) -> str:
    """The whole page as Markdown."""
    parts = [_HEAD]
    for role, name, model in connectors:
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
        if key not in model.flink_only:
            lines.append(_row(key, node, required=key in schema["required"]))
    if issubclass(model, Options | SparkOptions):
        lines += [f"| `{prefix}*` | | {_cell(meaning)} |" for prefix, meaning in model.prefixes.items()]
    lines.append("")
    if model.flink_only:
        lines += ["Accepted from Flink CDC files and ignored, with a warning:", ""]
        lines += [f"- `{key}`: {reason}" for key, reason in model.flink_only.items()]
        lines.append("")
    if model.flink_refused:
        lines += ["Of these refused, as they choose or change rows:", ""]
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
