"""Sinks whose options name what rows of a table go to, such as topics: an edit must not leave rows behind unnoticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from cdc.schema import TableId

_SHOWN = 5


@runtime_checkable
class NamesContainers(Protocol):
    """Optional capability of a sink's options."""

    def kept(self) -> Mapping[str, str]:
        """The values that must stay while a pipeline lives, by keys of the pipeline file."""

    def naming(self) -> Mapping[str, str]:
        """The values that `container` goes by, by keys of the pipeline file."""

    def container(self, naming: Mapping[str, str], table: TableId) -> str:
        """Where rows of a sink table go, by what `naming` said at some time. Raises SinkError for no name."""


def moved_rows(before: Mapping[str, str] | None, options: object, filled: Iterable[TableId]) -> str:
    """The reason against a run, in words: tables that are filled already, and where; empty for none.

    `before` is what the options of the runs before said, None where nobody knows.
    """
    if before is None or not isinstance(options, NamesContainers) or before == options.naming():
        return ""
    now = options.naming()
    places = ((table, options.container(before, table), options.container(now, table)) for table in sorted(filled))
    moved = [f"{table} went to {old}, now to {new}" for table, old, new in places if old != new]
    if not moved:
        return ""
    more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
    return f"rows would go elsewhere in the sink than those before: {'; '.join(moved[:_SHOWN])}{more}"
