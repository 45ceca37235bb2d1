"""Which statements among the messages are carried out, in order with the rows, and what is said of the others. Pure.

A statement is in order with the rows of its table when all of them come through one partition: its topic has no other
one, and no other topic has the table; or by its place in the server's log (`connectors.kafka.read.ordered`). It is
carried out by entries of the history, and the batch that has them begins with the statement's message in that
partition: what a batch changes in schemas comes before its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdc.schema import DropColumn, RenameColumn, RenameTable, TableSchema
from connectors.kafka.formats.alter import Altered
from connectors.kafka.formats.groups import Messages, Reading, Statement
from connectors.kafka.formats.simple_ddl import SimpleDdl
from connectors.kafka.read.history import Entry, Known, statement_entry
from connectors.kafka.read.offset import partition_name
from connectors.kafka.read.ordered import Order, Parts, may_do_something, tables_of
from connectors.kafka.read.tables import Tables

_TOLD = re.compile(
    r"\s*(truncate|drop\s+(table|database|schema)|rename\s|alter\s.*\b(drop|rename|change|truncate)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that leave the sink with rows, names or columns that the source has no more."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a statement is judged by: what is known before it, which tables are wanted, and all partitions."""

    known: Known
    tables: Tables
    order: Order
    parts: Parts

    def partitions(self, topic: str) -> int:
        """How many a topic has."""
        return sum(topic == name for name, _ in self.parts)


def first_due(messages: Messages, reading: Reading, around: Around) -> tuple[int, list[Entry]] | None:
    """The first statement that is to be carried out and is not yet: the number of its message, and the entries.

    Without entries it has to wait for rows of other partitions.
    """
    for statement in reading.statements:
        place = place_of(messages, statement)
        if place in around.known.carried or statement.change is None or not concerns(statement, around.tables):
            continue
        if statement.place is not None and around.order.waits_for_rows(statement, place, around.known, around.parts):
            return statement.message, []
        changes = _changes(statement, around.known)
        if changes and not _refused(messages, statement, around):
            return statement.message, [statement_entry(change, *place) for change in changes]
    return None


def left_out(messages: Messages, reading: Reading, around: Around, count: int) -> Iterator[tuple[int, str]]:
    """About those of the first `count` messages that should change the sink and do not: offsets, and sentences."""
    for statement in reading.statements:
        place = place_of(messages, statement)
        if statement.message >= count or place in around.known.carried or not concerns(statement, around.tables):
            continue
        if statement.change is None and not _TOLD.match(statement.sql):
            continue
        why = _refused(messages, statement, around)
        if why:
            yield (
                place[1],
                (
                    f"{messages.where(statement.message)}: the sink is not changed by this statement ({why}): "
                    f"{statement.sql[:120]}"
                ),
            )


def _changes(statement: Statement, known: Known) -> list[SimpleDdl]:
    """What a statement does one after the other, to the table as it is known."""
    change = statement.change
    if isinstance(change, Altered):
        schema = known.schemas.get(change.table)
        return [] if schema is None else list(change.changes(schema.names))
    return [] if change is None else [change]


def place_of(messages: Messages, statement: Statement) -> tuple[str, int]:
    """The partition's name and the offset of a statement, as the history holds them."""
    return partition_name(messages.topic, messages.partition), messages.place(statement.message)


def concerns(statement: Statement, tables: Tables) -> bool:
    """Whether a table is wanted that the statement is about; one that names no table may be about any."""
    return statement.change is None or any(map(tables.takes, tables_of(statement)))


def _refused(messages: Messages, statement: Statement, around: Around) -> str:
    """Why a statement cannot be carried out; empty when it can, or when it does nothing but what the rows tell."""
    change, known = statement.change, around.known
    if change is None:
        return "only such are carried out that empty, drop or rename one table, or drop or rename its columns"
    if not may_do_something(statement):
        return ""
    if not all(map(around.tables.takes, tables_of(statement))):
        return "one of its tables is not wanted"
    why = _refused_place(messages, statement, around)
    if why:
        return why
    if change.table not in known.schemas:
        return "" if isinstance(change, Altered) else "no row of the table was read before"
    if isinstance(change, RenameTable) and change.new_table in known.schemas:
        return f"there is a table {change.new_table} already"
    return _refused_columns(_changes(statement, known), known.schemas[change.table])


def _refused_place(messages: Messages, statement: Statement, around: Around) -> str:
    if statement.place is not None:
        return around.order.refused(statement, place_of(messages, statement), around.known, around.parts)
    partitions = around.partitions(messages.topic)
    if partitions > 1:
        return f"the topic has {partitions} partitions, so it has no order with the rows"
    table = tables_of(statement)[0]
    others = around.known.topics.get(table, set()) - {messages.topic}
    return f"the table's rows come from the topic {min(others)} too" if others else ""


def _refused_columns(changes: list[SimpleDdl], schema: TableSchema) -> str:
    """Why columns cannot be dropped and renamed one after the other."""
    names = set(schema.names)
    for change in changes:
        if not isinstance(change, DropColumn | RenameColumn):
            continue
        name = change.name if isinstance(change, DropColumn) else change.old_name
        if name not in names:
            return f"the table has no column {name} here"
        if isinstance(change, DropColumn) and name in schema.primary_key:
            return "the column is part of the key"
        if isinstance(change, RenameColumn) and change.new_name in names:
            return f"there is a column {change.new_name} already"
        names.discard(name)
        names |= {change.new_name} if isinstance(change, RenameColumn) else set()
    return ""
