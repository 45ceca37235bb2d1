"""Columns that are BIGINT UNSIGNED in the source, and whose messages hold signed numbers. Stream reader.

Debezium writes them so by default (`bigint.unsigned.handling.mode: long`): a value from 2^63 on is a negative number.
Where the message's own schema says that the column is unsigned it is put right. A message without a schema does not;
the schema changes of the connector do, in a topic that has no order with the rows, so the user is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.schema import Kind, TableId
from connectors.kafka.read.history import HistoryState


class UnsignedColumns:
    """Tells once of each such column of a wanted table, when rows of the table are read. `notices` gets the sentences.

    Args:
        wanted: whether a table is taken.
    """

    def __init__(self, notices: list[str], wanted: Callable[[TableId], bool]) -> None:
        self._notices, self._wanted = notices, wanted
        self._waiting: dict[TableId, set[str]] = {}
        self._noticed: set[tuple[TableId, str]] = set()

    def add(self, columns: Mapping[TableId, frozenset[str]]) -> None:
        """Columns that schema changes say to be unsigned."""
        for table, names in columns.items():
            new = {name for name in names if (table, name) not in self._noticed}
            if new and self._wanted(table):
                self._waiting.setdefault(table, set()).update(new)

    def look(self, known: HistoryState) -> None:
        """Tell of those whose table is known by now, as one with signed columns."""
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
