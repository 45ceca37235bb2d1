"""Checks for tables and columns that must exist in the sink already, as the policy does not add them. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.evolution.merge import missing_columns
from cdc.schema import CreateTable, SchemaChange, TableId
from cdc.sink import Sink


def check_existing_tables(sink: Sink, policy: Policy, changes: Iterable[SchemaChange]) -> None:
    """Check that tables created by somebody else have all columns, if the policy does not add columns. Driver.

    Raises ChangeRefused for a table that lacks some, SinkError.
    """
    if not policy.adds_columns:
        for table, missing in _lacking(sink, (change for change in changes if isinstance(change, CreateTable))):
            raise not_added(table, missing, policy)


def check_expected(sink: Sink, expected: Iterable[CreateTable]) -> None:
    """Check that tables which the pipeline does not create exist with these columns. Driver.

    Raises ChangeRefused for a missing table or column, SinkError.
    """
    expected = tuple(expected)
    if absent := sink.missing_tables([creation.table for creation in expected]):
        raise ChangeRefused(
            "the sink has no such table, and create.table is excluded by its filters",
            where=", ".join(map(str, absent)),
            hint=f"create it there with the columns that `cdc plan` shows, or {_include('create.table')}",
        )
    for table, missing in _lacking(sink, expected):
        raise _missing(table, missing, "create.table is excluded by the sink's filters", _include("create.table"))


def _lacking(sink: Sink, creations: Iterable[CreateTable]) -> Iterator[tuple[TableId, Sequence[str]]]:
    """Yield the existing tables that lack columns, with those columns. Raises SinkError."""
    for creation in creations:
        actual = sink.describe(creation.table)
        if actual is not None and (missing := missing_columns(actual, creation.schema)):
            yield creation.table, missing


def not_added(table: TableId, missing: Sequence[str], policy: Policy) -> ChangeRefused:
    """The error for columns that a table lacks and that the policy does not add."""
    if policy.behavior is Behavior.IGNORE:
        return _missing(table, missing, "schema.change.behavior is ignore", "write lenient or evolve")
    return _missing(table, missing, "add.column is excluded by the sink's filters", _include("add.column"))


def _include(change: str) -> str:
    return f"include {change} (include.schema.changes, exclude.schema.changes)"


def _missing(table: TableId, missing: Sequence[str], why: str, otherwise: str) -> ChangeRefused:
    return ChangeRefused(
        f"the sink's table has no column {', '.join(missing)}, and {why}",
        where=str(table),
        hint=f"add it to the table, exclude it with a projection, or {otherwise}",
    )
