"""Compiles a checked pipeline file to the routes, rules and policies that the engine uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.options import SinkOptions, SourceOptions
from cdc.route import RouteTable
from cdc.sink_columns import Coercion
from cdc.spec.rules import parsed_rules
from cdc.tables.table_map import ExistingRows
from cdc.units import arrow_zone

if TYPE_CHECKING:
    from cdc.spec.model import PipelineOptions, PipelineSpec


def compile_spec(spec: PipelineSpec, pipeline: str = "") -> Middle:
    """Compile a pipeline file, once per command. `pipeline`: its id, used in the path of its dead letters."""
    options, sink = spec.pipeline, spec.sink
    namespaces = isinstance(spec.source, SourceOptions) and spec.source.namespaces
    behavior = Behavior(options.schema_change_behavior)
    include = exclude = None
    if isinstance(sink, SinkOptions):
        include, exclude = _names(sink.include_schema_changes), _names(sink.exclude_schema_changes)
    exact = behavior in (Behavior.EVOLVE, Behavior.EXCEPTION)
    first_match = options.route_mode == "first_match"
    rivals = {
        name: RouteTable(rules, first_match=first_match, namespaces=namespaces) for name, rules in spec.rivals.items()
    }
    routes = RouteTable(spec.route, first_match=first_match, namespaces=namespaces, file=spec.file, rivals=rivals)
    return Middle(
        routes,
        Policy(behavior, include, exclude),
        Coercion(_lost(options, exact), arrow_zone(options.local_time_zone)),
        parsed_rules(spec, pipeline),
        ExistingRows(options.existing_rows),
    )


def _lost(pipeline: PipelineOptions, exact: bool) -> str:
    if "lost_values" in pipeline.model_fields_set:
        return pipeline.lost_values or "null"  # an unquoted null is YAML's null value
    return "fail" if exact else "null"


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(name.strip().lower() for name in given)
