"""For tests of connectors and pipelines, ours and yours: doubles, block builders, a runner without Spark, conformance.

    from cdc.testing import FailAt, ListSink, ListSource, block, run_in_memory

    sink = ListSink()
    rows = block(orders, schema, [("+I", {"id": 1})])
    run_in_memory(ListSource([CreateTable(orders, schema), rows, FailAt.DECIDED]), sink)
    assert sink.rows(orders) == [{"id": 1}]

`SourceConformance` and `SinkConformance` hold the named behaviours that every connector has: make a subclass with a
`harness` fixture, and pytest runs them all. They need pytest installed, nothing else does.
"""

from cdc.testing.blocks import block, images
from cdc.testing.list_sink import ListSink
from cdc.testing.list_source import FailAt, ListSource
from cdc.testing.memory import Run, run_in_memory
from cdc.testing.sink_conformance import SinkConformance
from cdc.testing.sink_harness import SinkHarness
from cdc.testing.source_conformance import SourceConformance, SourceHarness

__all__ = [
    "FailAt",
    "ListSink",
    "ListSource",
    "Run",
    "SinkConformance",
    "SinkHarness",
    "SourceConformance",
    "SourceHarness",
    "block",
    "images",
    "run_in_memory",
]
