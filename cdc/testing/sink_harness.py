"""How the conformance suite meets a sink."""

from __future__ import annotations

from typing import Protocol

from cdc.schema import TableId
from cdc.sink import Sink
from cdc.testing.blocks import Row


class SinkHarness(Protocol):
    """A sink as the suite meets it: one place that survives restarts."""

    def sink(self) -> Sink:
        """A new sink object on the same place and the same state, as after a restart."""

    def rows(self, table: TableId) -> list[Row] | None:
        """The visible rows of a table in any order, values as Arrow gives them; None when there is no such table."""
