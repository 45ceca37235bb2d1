"""The interface between the conformance suite and a sink."""

from __future__ import annotations

from typing import Protocol

from cdc.schema import TableId
from cdc.sink import Sink
from cdc.testing.blocks import Row


class SinkHarness(Protocol):
    """A sink for the suite: one location that survives restarts."""

    def sink(self) -> Sink:
        """Create a sink object on the same location and state, as after a restart."""

    def rows(self, table: TableId) -> list[Row] | None:
        """Return the visible rows of a table in any order, with Arrow's Python values; None when it does not exist."""
