"""Columns and tables that have to be in the sink already, as the pipeline may not add them. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.evolution.merge import missing_columns
from cdc.schema import CreateTable, SchemaChange, TableId
from cdc.sink import Sink


def check_there(sink: Sink, policy: Policy, changes: Iterable[SchemaChange]) -> None:
    """Tables that somebody made before the pipeline came have all columns, where none may be added. Driver.

    Raises ChangeRefused for one that has not, SinkError.
    """
    if not policy.adds_columns:
        for table, missing in _lacking(sink, (change for change in changes if isinstance(change, CreateTable))):
            raise not_added(table, missing, policy)


def check_expected(sink: Sink, expected: Iterable[CreateTable]) -> None:
    """Tables that have to be in the sink, as create.table is left out, are there with these columns. Driver.

    Raises ChangeRefused for one that is not, SinkError.
    """
    expected = tuple(expected)
    if absent := sink.missing_tables([creation.table for creation in expected]):
        raise ChangeRefused(
            "the sink has no such table, and create.table is left out by its filters",
            where=", ".join(map(str, absent)),
            hint=f"create it there with the columns that `cdc plan` shows, or {_let_through('create.table')}",
        )
    for table, missing in _lacking(sink, expected):
        raise _missing(table, missing, "create.table is left out by the sink's filters", _let_through("create.table"))


def _lacking(sink: Sink, creations: Iterable[CreateTable]) -> Iterator[tuple[TableId, Sequence[str]]]:
    """The tables among these that are there and lack columns, with these. Raises SinkError."""
    for creation in creations:
        actual = sink.describe(creation.table)
        if actual is not None and (missing := missing_columns(actual, creation.schema)):
            yield creation.table, missing


def not_added(table: TableId, missing: Sequence[str], policy: Policy) -> ChangeRefused:
    """The error for columns that a table lacks and that the policy does not let be added."""
    if policy.behavior is Behavior.IGNORE:
        return _missing(table, missing, "schema.change.behavior is ignore", "write lenient or evolve")
    return _missing(table, missing, "add.column is left out by the sink's filters", _let_through("add.column"))


def _let_through(change: str) -> str:
    return f"let {change} through (include.schema.changes, exclude.schema.changes)"


def _missing(table: TableId, missing: Sequence[str], why: str, otherwise: str) -> ChangeRefused:
    return ChangeRefused(
        f"the sink's table has no column {', '.join(missing)}, and {why}",
        where=str(table),
        hint=f"add it to the table, leave it out with a projection, or {otherwise}",
    )
