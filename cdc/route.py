"""Source table id to sink table id. Pure; one source table goes to one sink table, and no two to the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

from cdc.errors import Problem, SpecError
from cdc.pattern import TablePattern
from cdc.schema import TableId


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
