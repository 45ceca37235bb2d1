"""Sink tables that somebody has altered by hand since the pipeline last wrote to them: what is missing, what is new."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.schema import CreateTable, SchemaChange, TableId
from cdc.sink import Sink

if TYPE_CHECKING:
    from cdc.tables.states import Schemas

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Altered:
    """One table.

    Attributes:
        table: as the sink has it.
        lost: columns that the pipeline fills and that are gone.
        new: columns that the pipeline knows nothing of.
        refused: why its rows cannot go in any more, with what to do; empty when they can.
    """

    table: TableId
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    refused: str = ""

    @property
    def text(self) -> str:
        """The difference for people, behind the table's name."""
        parts = []
        if self.lost:
            names = ", ".join(self.lost)
            parts.append(f"{names} was dropped in the sink: it is added again, NULL in rows that are there")
        if self.new:
            parts.append(f"{', '.join(self.new)} was added in the sink: it is left as it is, NULL in new rows")
        if self.refused:
            parts.append(f"a run would stop: {self.refused}")
        return "; ".join(parts)


def altered_tables(sink: Sink, known: Schemas) -> Sequence[Altered]:
    """The tables that are not as they were left, of those that there are. Driver; asks the sink for each table.

    Tables that are gone are no matter of this: a run finds them by itself.
    """
    found = []
    for table, schema in sorted(known.items()):
        actual = sink.describe(table)
        if actual is None:
            continue
        there, wanted = ({name.casefold() for name in each.names} for each in (actual, schema))
        lost = tuple(name for name in schema.names if name.casefold() not in there)
        new = tuple(name for name in actual.names if name.casefold() not in wanted)
        altered = Altered(table, lost, new, _refused(sink, CreateTable(table, schema)))
        if altered != Altered(table):
            found.append(altered)
    return found


def check_there(sink: Sink, policy: Policy, changes: Iterable[SchemaChange]) -> None:
    """Tables that somebody made before the pipeline came have all columns, where none may be added. Driver.

    Raises ChangeRefused for one that has not, SinkError.
    """
    if not policy.adds_columns:
        for table, missing in _lacking(sink, (change for change in changes if isinstance(change, CreateTable))):
            raise _not_added(table, missing, policy)


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
        there = set() if actual is None else {name.casefold() for name in actual.names}
        missing = [name for name in creation.schema.names if name.casefold() not in there]
        if actual is not None and missing:
            yield creation.table, missing


def _not_added(table: TableId, missing: Sequence[str], policy: Policy) -> ChangeRefused:
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


def put_back(
    sink: Sink,
    known: Schemas,
    tables: Iterable[TableId],
    apply: Callable[[Sequence[CreateTable]], None],
    policy: Policy,
) -> None:
    """Add the columns that were dropped in these sink tables, and say what was altered. Driver, before the first batch.

    `apply` carries changes out. A table that rows cannot go into any more is told of; the run stops when there are
    some. Raises ChangeRefused for a column that the policy does not let be added, SinkError.
    """
    there = {table: known[table] for table in sorted(tables)}
    creations = [CreateTable(table, schema) for table, schema in there.items()]
    try:
        missing = sink.plan_text(creations) if creations else ()
    except ChangeRefused as error:
        log.warning("a table was altered in the sink: %s", error)
        return
    if not missing:
        return
    for altered in altered_tables(sink, there):
        if altered.lost and not policy.adds_columns:
            raise _not_added(altered.table, altered.lost, policy)
        again = f"; `cdc resync FILE TABLE` brings the values of {', '.join(altered.lost)}" if altered.lost else ""
        log.warning("%s: %s%s", altered.table, altered.text, again)
    apply(creations)


def _refused(sink: Sink, change: CreateTable) -> str:
    try:
        sink.plan_text([change])
    except ChangeRefused as error:
        return str(error)
    return ""
