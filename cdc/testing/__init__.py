"""Test tools for connectors and pipelines: test doubles, block builders, runners without Spark, conformance suites.

    from cdc.testing import FailAt, ListSink, ListSource, block, run_in_memory

    sink = ListSink()
    rows = block(orders, schema, [("+I", {"id": 1})])
    run_in_memory(ListSource([CreateTable(orders, schema), rows, FailAt.DECIDED]), sink)
    assert sink.rows(orders) == [{"id": 1}]

`run_cases` runs thousands of small pipelines, from lines to lines. `SourceConformance` and `SinkConformance` test the
behaviour that every connector must have: subclass one with a `harness` fixture, and pytest runs its tests. Only these
need pytest. Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc.testing.blocks import block, images
    from cdc.testing.cases import run_cases
    from cdc.testing.crashes import FailAt
    from cdc.testing.list_sink import ListSink
    from cdc.testing.list_source import ListSource
    from cdc.testing.local_pipeline import MemoryRun
    from cdc.testing.memory import run_in_memory
    from cdc.testing.sink_conformance import SinkConformance
    from cdc.testing.sink_harness import SinkHarness
    from cdc.testing.source_conformance import SourceConformance, SourceHarness

__all__ = [
    "FailAt",
    "ListSink",
    "ListSource",
    "MemoryRun",
    "SinkConformance",
    "SinkHarness",
    "SourceConformance",
    "SourceHarness",
    "block",
    "images",
    "run_cases",
    "run_in_memory",
]

_MODULES = {
    "FailAt": "crashes",
    "ListSink": "list_sink",
    "ListSource": "list_source",
    "MemoryRun": "local_pipeline",
    "SinkConformance": "sink_conformance",
    "SinkHarness": "sink_harness",
    "SourceConformance": "source_conformance",
    "SourceHarness": "source_conformance",
    "block": "blocks",
    "images": "blocks",
    "run_cases": "cases",
    "run_in_memory": "memory",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'cdc.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cdc.testing.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
