"""Decide which statements among the messages are carried out, in order with the rows, and report the others. Pure.

A statement is in order with the rows of its table when all of them come through one partition (its topic has no other
partition, and no other topic has the table), or by its position in the server's log (`connectors.kafka.read.ordered`).
It is carried out by entries of the history. The batch with those entries begins with the statement's message in that
partition, because a batch changes schemas before its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdc.schema import DropTable, RenameTable
from cdc.schema_json import schema_from_json, table_from_json
from connectors.kafka.formats.ddl import AlteredColumns, tables_of
from connectors.kafka.formats.groups import DdlMessage, Messages, Reading, TableGroup
from connectors.kafka.read.history import Entry, HistoryState, early_entry, is_statement, statement_entries
from connectors.kafka.read.offset import partition_name
from connectors.kafka.read.ordered import Parts, ReadOrder, may_do_something
from connectors.kafka.read.tables import TopicTables

_LEAVES_BEHIND = re.compile(
    r"\s*(truncate|drop\s+(table|database|schema)|rename\s|alter\s.*\b(drop|rename|change|truncate)\b|"
    r"alter\s.*\badd\b.*\b(default|not\s+null|auto_increment|generated|serial)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that, if ignored, leave rows, names or columns in the sink that the source lacks, or NULL for values."""


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context of a statement: the history before it, the wanted tables, and all partitions."""

    known: HistoryState
    tables: TopicTables
    order: ReadOrder
    parts: Parts

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic."""
        return sum(topic == name for name, _ in self.parts)


def first_due(messages: Messages, reading: Reading, context: StatementContext) -> tuple[int, list[Entry]] | None:
    """The first statement still to be carried out: the number of its message, and the entries.

    Without entries, it has to wait for rows of other partitions.
    """
    for statement in reading.statements:
        at = partition_offset(messages, statement)
        if at in context.known.carried or not statement.changes or not concerns(statement, context.tables):
            continue
        if statement.position is not None and context.order.waits_for_rows(statement, at, context.known, context.parts):
            return statement.message, []
        early = _early(messages, statement, context)
        if early is not None:
            return statement.message, [early]
        steps = (statement_entries(change, context.known, *at) for change in statement.changes)
        entries = [entry for step in steps for entry in step]
        if entries and not _refusal_reason(messages, statement, context):
            return statement.message, entries
    return None


def left_out(messages: Messages, reading: Reading, context: StatementContext, count: int) -> Iterator[tuple[int, str]]:
    """Report which of the first `count` messages should change the sink but do not: their offsets, and sentences."""
    for statement in reading.statements:
        at = partition_offset(messages, statement)
        if statement.message >= count or not concerns(statement, context.tables):
            continue
        if not statement.changes and not _LEAVES_BEHIND.match(statement.sql):
            continue
        why = "" if at in context.known.carried else _refusal_reason(messages, statement, context)
        text = f"the sink is not changed by this statement ({why})" if why else _unsure(statement, context.known)
        if text:
            yield at[1], f"{messages.where(statement.message)}: {text}: {statement.sql[:120]}"


def up_to_statement(group: TableGroup, reading: Reading) -> TableGroup:
    """The group up to the first statement about its table, since columns may differ before and after that."""
    stops = [
        item.message for item in reading.statements if may_do_something(item) and group.table in tables_of(item.changes)
    ]
    before = group.images.messages < min(stops) if stops else None
    return group if before is None or not before.any() else replace(group, images=group.images.part(before))


def is_left_out(statement: DdlMessage, carried: bool) -> bool:
    """Whether a statement counts as one that was not, or not completely, carried out."""
    return not carried or any(isinstance(change, AlteredColumns) and change.uncertain for change in statement.changes)


def not_filled(entries: Sequence[Entry], known: HistoryState) -> Iterator[str]:
    """Sentences about columns that these entries add, whose existing rows have a value in the source but get NULL."""
    for entry in entries:
        if is_statement(entry) or entry.get("schema") is None:
            continue
        table, schema = table_from_json(entry["table"]), schema_from_json(entry["schema"])
        for name, why in known.not_filled(table, schema).items():
            yield f"{table}: existing rows get NULL in the new column {name}: {why}"


def _early(messages: Messages, statement: DdlMessage, context: StatementContext) -> Entry | None:
    """The entry of a statement that adds columns to a table of which no row was read; None for other statements."""
    match statement.changes:
        case (AlteredColumns(table) as change,) if change.added and table not in context.known.schemas:
            if not _refusal_reason(messages, statement, context):
                return early_entry(table, change.added, *partition_offset(messages, statement))
    return None


def _unsure(statement: DdlMessage, known: HistoryState) -> str:
    """The warning about values of existing rows that cannot be told."""
    schemas = [known.schemas[table] for table in tables_of(statement.changes) if table in known.schemas]
    match statement.changes:
        case (AlteredColumns() as change, *_) if schemas:
            return "; ".join(_unsure_values(change, schemas[-1].primary_key))
    return ""


def _unsure_values(change: AlteredColumns, key: Sequence[str]) -> Iterator[str]:
    if change.uncertain:
        names = ", ".join(item.name for item in change.uncertain)
        yield f"existing rows get NULL in {change.table}, column {names} ({change.uncertain[0].uncertain})"
    if change.computed:
        names = ", ".join(change.computed)
        yield f"rows that are there keep their values in {change.table}, column {names}, which the source recomputed"
    if names := ", ".join(name for name in change.not_null if name not in key):
        yield (
            f"NULLs that are there stay NULL in {change.table}, column {names}: the source has other values for them "
            "if the session of this statement was not strict"
        )


def partition_offset(messages: Messages, statement: DdlMessage) -> tuple[str, int]:
    """The partition's name and the offset of a statement, as the history has them."""
    return partition_name(messages.topic, messages.partition), messages.offset(statement.message)


def concerns(statement: DdlMessage, tables: TopicTables) -> bool:
    """Whether the statement is about a wanted table; one that names no table may be about any."""
    return not statement.changes or any(map(tables.captures, tables_of(statement.changes)))


def _refusal_reason(messages: Messages, statement: DdlMessage, context: StatementContext) -> str:
    """Why a statement cannot be carried out; empty when it can be, or when the rows tell everything that it does."""
    changes, known = statement.changes, context.known
    if not changes:
        return "only statements are applied that empty, drop or rename tables, or drop, rename or add columns of one"
    if not may_do_something(statement):
        return ""
    if not all(map(context.tables.captures, tables_of(changes))):
        return "one of its tables is not selected"
    why = _refused_order(messages, statement, context)
    if why:
        return why
    match changes:
        case (AlteredColumns(table) as change,):
            return _refused_columns(change, known) if table in known.schemas else ""
        case (AlteredColumns() as change, RenameTable()):
            return _refused_tables(statement, known) or _refused_columns(change, known)
    return _refused_tables(statement, known)


def _refused_tables(statement: DdlMessage, known: HistoryState) -> str:
    """Why tables cannot be emptied, dropped and renamed as the statement says; empty when they can."""
    names = set(known.schemas)
    if names.isdisjoint(tables_of(statement.changes)):
        return "no row of the table was read before"
    for change in statement.changes:
        if change.table not in names and not isinstance(change, DropTable):
            return f"no row of {change.table} was read before"
        if isinstance(change, RenameTable):
            if change.new_table in names:
                return f"there is a table {change.new_table} already"
            names.add(change.new_table)
        if isinstance(change, RenameTable | DropTable):
            names.discard(change.table)
    return ""


def _refused_order(messages: Messages, statement: DdlMessage, context: StatementContext) -> str:
    if statement.position is not None:
        return context.order.refusal_reason(partition_offset(messages, statement), context.known, context.parts)
    partitions = context.partitions(messages.topic)
    if partitions > 1:
        return f"the topic has {partitions} partitions, so it has no order with the rows"
    tables = {change.table for change in statement.changes}
    others = set[str]().union(*(context.known.topics.get(table, ()) for table in tables)) - {messages.topic}
    return f"the table's rows come from the topic {min(others)} too" if others else ""


def _refused_columns(change: AlteredColumns, known: HistoryState) -> str:
    """Why columns of a known table cannot be dropped, renamed and added; empty when they can."""
    names = known.columns(change.table)
    moves, fills = change.renames(names), change.fills(names)
    removed = (*change.dropped, *(old for old, _ in change.renamed))
    if removed and not moves and not fills:
        return f"the table has no column {removed[0]} here"
    if any(moves.get(name, name) is None for name in known.schemas[change.table].primary_key):
        return "the column is part of the key"
    stay = {name.casefold() for name in names if name not in moves}
    conflicting = [new for new in moves.values() if new is not None and new.casefold() in stay]
    if conflicting:
        return f"there is a column {conflicting[0]} already"
    existing = [item.name for item in fills if item.name.casefold() in stay]
    return f"there is a column {existing[0]} already, whose rows may hold other values" if existing else ""
