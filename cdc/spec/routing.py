"""The `route` block, the behavior and the filters of a pipeline file, as what the engine goes by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.coerce import Coercion
from cdc.flow.routing import Routing
from cdc.options import SinkOptions, SourceOptions
from cdc.route import RouteTable

if TYPE_CHECKING:
    from cdc.spec.model import PipelineOptions, PipelineSpec


def made_routing(spec: PipelineSpec) -> Routing:
    """How rows and schema changes get into the sink's tables."""
    pipeline, sink = spec.pipeline, spec.sink
    namespaces = isinstance(spec.source, SourceOptions) and spec.source.namespaces
    behavior = Behavior(pipeline.schema_change_behavior)
    include = exclude = None
    if isinstance(sink, SinkOptions):
        include, exclude = _names(sink.include_schema_changes), _names(sink.exclude_schema_changes)
    exact = behavior in (Behavior.EVOLVE, Behavior.EXCEPTION)
    return Routing(
        RouteTable(spec.route, first_match=pipeline.route_mode == "first_match", namespaces=namespaces),
        Policy(behavior, include, exclude),
        Coercion(_lost(pipeline, exact), _zone(pipeline.local_time_zone)),
    )


def _lost(pipeline: PipelineOptions, exact: bool) -> str:
    if "lost_values" in pipeline.model_fields_set:
        return pipeline.lost_values or "null"  # without quotes, null is YAML's word for no value
    return "fail" if exact else "null"


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(name.strip().lower() for name in given)


def _zone(given: str | None) -> str:
    """The zone in Arrow's spelling: a region, or `+08:00`."""
    text = re.sub(r"^(UTC|GMT)(?=[+-])", "", given or "UTC")
    return "UTC" if text == "Z" else re.sub(r"^([+-]\d\d)(\d\d)$", r"\1:\2", text)
