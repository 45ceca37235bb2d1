"""Source table id to sink table id. One source table goes to one sink table, and no two to the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from cdc.errors import Problem, SpecError
from cdc.pattern import TablePattern
from cdc.schema import CreateTable, DropTable, RenameTable, SchemaChange, TableId


class Rule(Protocol):
    """One entry of `route`: tables that match `source_table` go to `sink_table`.

    Where `replace_symbol` is given, every occurrence of it in `sink_table` stands for the source table's name.
    """

    @property
    def source_table(self) -> str:
        """Table id patterns."""

    @property
    def sink_table(self) -> str:
        """A table id, perhaps with the symbol in it."""

    @property
    def replace_symbol(self) -> str | None:
        """The symbol, None when `sink_table` is meant as it is."""


def route(table: TableId, rules: Sequence[Rule]) -> TableId:
    """Where the rows of a table go: by the first rule that matches, else to a table of the same id."""
    for rule in rules:
        if TablePattern(rule.source_table).matches(table):
            return target(table, rule)
    return table


def target(table: TableId, rule: Rule) -> TableId:
    """The sink table of a source table that matches the rule."""
    if rule.replace_symbol is None:
        return TableId.parse(rule.sink_table)
    return TableId.parse(rule.sink_table.replace(rule.replace_symbol, table.table))


def collisions(tables: Iterable[TableId], rules: Sequence[Rule], *, first_match: bool = False) -> list[str]:
    """Why the rules do not take every table to a sink table of its own; empty when they do.

    Names that differ only in case count as the same, as many sinks do not tell them apart. With `first_match` a table
    that several rules match goes by the first; else it would have to go to several sink tables, which is refused.
    """
    found: list[str] = []
    sources: defaultdict[tuple[str, str], list[TableId]] = defaultdict(list)
    for table in sorted(set(tables)):
        matching = [number for number, rule in enumerate(rules) if TablePattern(rule.source_table).matches(table)]
        if len(matching) > 1 and not first_match:
            found.append(f"{table} matches several rules ({', '.join(f'route[{number}]' for number in matching)})")
        sink_table = route(table, rules)
        sources[sink_table.database.casefold(), sink_table.table.casefold()].append(table)
    for group in sources.values():
        if len(group) > 1:
            found.append(f"{', '.join(map(str, group))} would all go to {route(group[0], rules)}")
    return found


def check_collisions(
    tables: Iterable[TableId], rules: Sequence[Rule], *, first_match: bool = False, file: str = ""
) -> None:
    """Raise SpecError when `collisions` finds any; `file` is the pipeline file, for the messages."""
    hint = "one source table to one sink table in this version; route-mode first_match lets the first rule win"
    problems = [Problem(file, 1, 1, "route", text, hint) for text in collisions(tables, rules, first_match=first_match)]
    if problems:
        raise SpecError(problems)


class RouteTable:
    """`route` with a pipeline's rules; picklable, answers are remembered. Driver and executors."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[TableId, TableId] = {}

    def __call__(self, table: TableId) -> TableId:
        """The sink table of a source table."""
        if table not in self._known:
            self._known[table] = route(table, self._rules)
        return self._known[table]


class RouteGuard:
    """Refuses a change after which two captured tables would share a sink table. Driver.

    It knows the tables from the changes alone, each of which it is told in log order: what the source has today may be
    the result of changes that are still to come. `check` is given all tables and raises SpecError.
    """

    def __init__(self, check: Callable[[Sequence[TableId]], None]) -> None:
        self._check = check
        self._tables: set[TableId] = set()

    def check(self, changes: Iterable[SchemaChange]) -> None:
        """Take over tables that come and go. Raises SpecError before anything was applied; repeatable."""
        tables = set(self._tables)
        for change in changes:
            if isinstance(change, CreateTable):
                tables.add(change.table)
            elif isinstance(change, DropTable):
                tables.discard(change.table)
            elif isinstance(change, RenameTable):
                tables.discard(change.table)
                tables.add(change.new_table)
        if tables != self._tables:
            self._check(sorted(tables))
            self._tables = tables


def routed(change: SchemaChange, to_sink: Callable[[TableId], TableId]) -> SchemaChange:
    """The change as the sink sees it: with the sink's table names."""
    if isinstance(change, RenameTable):
        return RenameTable(to_sink(change.table), to_sink(change.new_table))
    return replace(change, table=to_sink(change.table))
