"""Warn of columns that are BIGINT UNSIGNED in the source but signed numbers in the messages. Stream reader.

By default (`bigint.unsigned.handling.mode: long`), Debezium writes values from 2^63 on as negative numbers. If the
message's own schema says that the column is unsigned, the values are corrected. For messages without a schema, only the
connector's schema changes tell it, in a topic without an order relative to the rows, so the user is warned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.schema import Kind, TableId
from connectors.kafka.read.history import HistoryState


class UnsignedColumns:
    """Warns once of each such column of a captured table when its rows are read. `notices` takes the warnings.

    Args:
        captures: the captured tables.
    """

    def __init__(self, notices: list[str], captures: Callable[[TableId], bool]) -> None:
        self._notices, self._captures = notices, captures
        self._waiting: dict[TableId, set[str]] = {}
        self._noticed: set[tuple[TableId, str]] = set()

    def add(self, columns: Mapping[TableId, frozenset[str]]) -> None:
        """Add columns that are unsigned according to schema changes."""
        for table, names in columns.items():
            new = {name for name in names if (table, name) not in self._noticed}
            if new and self._captures(table):
                self._waiting.setdefault(table, set()).update(new)

    def warn(self, known: HistoryState) -> None:
        """Warn of those columns whose table is known by now and has them as signed."""
        for table in [table for table in self._waiting if table in known.schemas]:
            signed = {column.name for column in known.schemas[table].columns if column.type.kind is Kind.BIGINT}
            for name in sorted(self._waiting.pop(table) & signed):
                self._noticed.add((table, name))
                self._notices.append(
                    f"{table}: {name} is BIGINT UNSIGNED in the source, and its messages hold signed numbers: values "
                    "from 2^63 on come as negative ones; declare it "
                    f"(columns: {{{table}: {{{name}: BIGINT UNSIGNED}}}}), or set bigint.unsigned.handling.mode: "
                    "precise in the connector"
                )
