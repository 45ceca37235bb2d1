"""A source of a Python list with schema changes, blocks and crashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.schema import CreateTable, DropTable, SchemaChange, TableId, TableSchema
from cdc.source import Count, Limits, Offset, Report, Source, Split
from cdc.testing.crashes import FailAt


class ListSource(Source):
    """Each block of the list is one transaction. Offsets count items: `{"item": 3}`."""

    bounded = True

    def __init__(self, items: Sequence[SchemaChange | on.SourceEvent | ChangeBlock | FailAt]) -> None:
        self._items = tuple(items)

    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the tables created in the list, as created."""
        created = {item.table: item.schema for item in self._items if isinstance(item, CreateTable)}
        dropped = {item.table for item in self._items if isinstance(item, DropTable)}
        return {table: schema for table, schema in created.items() if table not in dropped}

    def initial_offset(self) -> Offset:
        """Return the offset before the first item."""
        return {"item": 0}

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """Return the offset of the end, the row limit, or a schema change after rows."""
        rows = 0
        for index in range(start["item"], len(self._items)):
            item = self._items[index]
            if isinstance(item, ChangeBlock):
                if rows and limits is not None and rows + len(item) > limits.max_rows:
                    return {"item": index}
                rows += len(item)
            elif rows and not isinstance(item, FailAt):
                return {"item": index}
        return {"item": len(self._items)}

    def stop_at_current(self) -> None:
        """Do nothing: the list does not grow."""

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Divide the items into ranges of about equal length."""
        first, last = start["item"], end["item"]
        size = max(1, -(-(last - first) // parallelism))
        cuts = range(first, last, size)
        return [Split(index, [at, min(at + size, last)]) for index, at in enumerate(cuts)]

    def events(self, start: Offset, end: Offset) -> Sequence[on.SourceEvent]:
        """Return the events among the items, with schema changes converted to events."""
        items = self._items[start["item"] : end["item"]]
        events = (item for item in items if not isinstance(item, ChangeBlock | FailAt))
        return [item if isinstance(item, on.SourceEvent) else on.event(item) for item in events]

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Return the blocks among the items."""
        first, last = split.payload
        return (item for item in self._items[first:last] if isinstance(item, ChangeBlock))

    def failures(self, start: Offset, end: Offset) -> list[FailAt]:
        """Return the crashes among the items."""
        return [item for item in self._items[start["item"] : end["item"]] if isinstance(item, FailAt)]
