"""Which statements among the messages are carried out, in order with the rows, and what is said of the others. Pure.

A statement is in order with the rows of its table when all of them come through one partition: its topic has no other
one, and no other topic has the table. It is carried out by an entry of the history, and the batch that has the entry
begins with the statement's message in that partition: what a batch changes in schemas comes before its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdc.schema import DropColumn, RenameColumn, RenameTable, TableId, TableSchema
from connectors.kafka.formats.groups import Messages, Reading, Statement
from connectors.kafka.read.history import Entry, Known, statement_entry
from connectors.kafka.read.offset import partition_name
from connectors.kafka.read.tables import Tables

_TOLD = re.compile(
    r"\s*(truncate|drop\s+(table|database|schema)|rename\s|alter\s.*\b(drop|rename|change|truncate)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that leave the sink with rows, names or columns that the source has no more."""


def first_due(
    messages: Messages, reading: Reading, known: Known, tables: Tables, partitions: int
) -> tuple[int, Entry] | None:
    """The first statement that is to be carried out and is not yet: the number of its message, and the entry.

    Args:
        partitions: how many the topic has.
    """
    for statement in reading.statements:
        change, place = statement.change, place_of(messages, statement)
        if (
            change is not None
            and place not in known.carried
            and not _refused(messages, statement, known, tables, partitions)
        ):
            return statement.message, statement_entry(change, *place)
    return None


def left_out(
    messages: Messages, reading: Reading, known: Known, tables: Tables, partitions: int, count: int
) -> Iterator[tuple[int, str]]:
    """About those of the first `count` messages that should change the sink and do not: offsets, and sentences."""
    for statement in reading.statements:
        place = place_of(messages, statement)
        if statement.message >= count or place in known.carried or not concerns(statement, tables):
            continue
        if statement.change is None and not _TOLD.match(statement.sql):
            continue
        why = _refused(messages, statement, known, tables, partitions)
        yield (
            place[1],
            (
                f"{messages.where(statement.message)}: the sink is not changed by this statement ({why}): "
                f"{statement.sql[:120]}"
            ),
        )


def place_of(messages: Messages, statement: Statement) -> tuple[str, int]:
    """The partition's name and the offset of a statement, as the history holds them."""
    return partition_name(messages.topic, messages.partition), messages.place(statement.message)


def concerns(statement: Statement, tables: Tables) -> bool:
    """Whether a table is wanted that the statement is about; one that names no table may be about any."""
    return statement.change is None or any(map(tables.takes, _tables_of(statement)))


def _tables_of(statement: Statement) -> list[TableId]:
    change = statement.change
    if change is None:
        return []
    return [change.table, change.new_table] if isinstance(change, RenameTable) else [change.table]


def _refused(messages: Messages, statement: Statement, known: Known, tables: Tables, partitions: int) -> str:
    """Why a statement cannot be carried out; empty when it can."""
    change = statement.change
    if change is None:
        return "only such are carried out that empty, drop or rename one table or one column"
    if not all(map(tables.takes, _tables_of(statement))):
        return "one of its tables is not wanted"
    if partitions > 1:
        return f"the topic has {partitions} partitions, so it has no order with the rows"
    if change.table not in known.schemas:
        return "no row of the table was read before"
    others = known.topics.get(change.table, set()) - {messages.topic}
    if others:
        return f"the table's rows come from the topic {min(others)} too"
    if isinstance(change, RenameTable) and change.new_table in known.schemas:
        return f"there is a table {change.new_table} already"
    if isinstance(change, DropColumn | RenameColumn):
        return _refused_column(change, known.schemas[change.table])
    return ""


def _refused_column(change: DropColumn | RenameColumn, schema: TableSchema) -> str:
    names = {column.name for column in schema.columns}
    name = change.name if isinstance(change, DropColumn) else change.old_name
    if name not in names:
        return f"the table has no column {name} here"
    if isinstance(change, DropColumn):
        return "the column is part of the key" if name in schema.primary_key else ""
    return f"there is a column {change.new_name} already" if change.new_name in names else ""
