"""Routes rows of source tables to sink tables: several source tables may share one, and one may have several.

source-table            sink-table          replace-symbol
shop.orders             ods.sales                           one table
shop.\\.*                ods.<>              <>              the symbol stands for the source table's name
shop_(\\d+).(\\.*)        ods.$2_$1                           `$1`, `$2`: the groups of the pattern, over all of it
shop_\\d+.orders         ods.orders                          several tables into one: their schemas are merged
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdc.errors import Problem, SpecError, StateError, first_of
from cdc.pattern import TablePattern
from cdc.schema import TableId
from cdc.state.store import RESTORE


class Route(Protocol):
    """One entry of `route`: rows of tables that match `source_table` are written to `sink_table`."""

    @property
    def source_table(self) -> str:
        """Table id patterns."""

    @property
    def sink_table(self) -> str:
        """A table id, which may contain the symbol or groups."""

    @property
    def replace_symbol(self) -> str | None:
        """The placeholder for the source table's name; None where `$1` means a group of the pattern."""

    @property
    def shard_column(self) -> str | None:
        """A column for the source table's id, added to the sink table and its key."""

    @property
    def shard_gone(self) -> str:
        """`keep` or `delete`: see `Target`."""


@dataclass(frozen=True, slots=True)
class Target:
    """A sink table of a source table; its `shard_column`, if any, has the source table's id.

    `shard_gone`: what happens to the rows of a source table that is truncated or dropped when the sink table has rows
    of others too.
    """

    table: TableId
    shard_column: str | None = None
    shard_gone: str = field(default="keep", compare=False)


_GROUP = re.compile(r"\\\$|\$(\d+)")


def target(table: TableId, rule: Route, *, namespaces: bool = False) -> TableId:
    """Return the sink table of a source table that matches the rule; its id may be `namespace.schema.table`."""
    if rule.replace_symbol is not None:
        name = table.names(namespaces=namespaces)[-1]
        return TableId.parse(rule.sink_table.replace(rule.replace_symbol, name))
    if "$" not in rule.sink_table:
        return TableId.parse(rule.sink_table)
    groups = TablePattern(rule.source_table).groups(table) or ()
    return TableId.parse(_GROUP.sub(lambda match: _group(match, groups), rule.sink_table))


def _group(match: re.Match[str], groups: Sequence[str]) -> str:
    if match[1] is None:
        return "$"
    number = group_number(match[1], len(groups))
    return match[0] if number is None else groups[number - 1] + match[1][len(str(number)) :]


def group_number(digits: str, count: int) -> int | None:
    """Return the group that `$` and digits refer to: the longest prefix that is a group's number; None without one."""
    for length in range(len(digits), 0, -1):
        if not digits.startswith("0") and int(digits[:length]) <= count:
            return int(digits[:length])
    return None


def missing_groups(rule: Route) -> list[str]:
    """Return the group references in `sink_table` that the pattern does not have, as written."""
    if rule.replace_symbol is not None:
        return []
    count = TablePattern(rule.source_table).group_count
    found = (match for match in _GROUP.finditer(rule.sink_table) if match[1] is not None)
    return [match[0] for match in found if group_number(match[1], count) is None]


def route(
    table: TableId, rules: Sequence[Route], *, first_match: bool = False, namespaces: bool = False
) -> tuple[Target, ...]:
    """Return a table's targets: of every matching rule, or of the first; without a match, a table of the same id.

    Rules that give the same sink table count as one.
    """
    found: dict[TableId, Target] = {}
    for rule in rules:
        if not TablePattern(rule.source_table).matches(table):
            continue
        sink_table = target(table, rule, namespaces=namespaces)
        found.setdefault(sink_table, Target(sink_table, rule.shard_column, rule.shard_gone))
        if first_match:
            break
    return tuple(found.values()) or (Target(table),)


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A stored rule."""

    source_table: str
    sink_table: str
    replace_symbol: str | None = None
    shard_column: str | None = None
    shard_gone: str = "keep"


class RouteTable:
    """`route` with a pipeline's rules; picklable, caches its results. Driver and executors.

    `namespaces` is whether ids may be `namespace.schema.table`; `file` is the pipeline file, for messages. `rivals` are
    the routes of the file's other sinks that write to the same system, by sink name.
    """

    def __init__(
        self,
        rules: Iterable[Route] = (),
        *,
        first_match: bool = False,
        namespaces: bool = False,
        file: str = "",
        rivals: Mapping[str, RouteTable] | None = None,
    ) -> None:
        self._rules, self._first_match, self._namespaces = tuple(rules), first_match, namespaces
        self._file, self._rivals = file, rivals or {}
        self._known: dict[TableId, tuple[Target, ...]] = {}

    def __call__(self, table: TableId) -> tuple[TableId, ...]:
        """Return the sink tables of a source table."""
        return tuple(target.table for target in self.targets(table))

    def targets(self, table: TableId) -> tuple[Target, ...]:
        """Return the sink tables of a source table, with their shard columns."""
        if table not in self._known:
            first, namespaces = self._first_match, self._namespaces
            self._known[table] = route(table, self._rules, first_match=first, namespaces=namespaces)
        return self._known[table]

    def check(self, tables: Iterable[TableId]) -> None:
        """Raise SpecError when the names of two sink tables of these source tables differ only in case, two tables with
        dots in their names are spelled alike, or another sink of the file writes one of the sink tables.
        """
        tables = sorted(tables)
        hint = "some sinks treat such names as equal: write them alike to merge the tables, or make them different"
        problems = [Problem(self._file, 1, 1, "route", text, hint) for text in collisions(tables, self)]
        hint = r"their names could not be told apart: leave one of them out (in patterns, a\.b.c is the table c of a.b)"
        problems += [Problem(self._file, 1, 1, "route", text, hint) for text in _ambiguous_names(tables)]
        sink_tables = {sink_table for table in tables for sink_table in self(table)}
        for name, rival in self._rivals.items():
            both = sorted(sink_tables & {sink_table for table in tables for sink_table in rival(table)})
            if both:
                text = f"{first_of(both, 3)} would also be written by the sink {name}, in the same target"
                problems.append(
                    Problem(self._file, 1, 1, "sink", text, "give one of the sinks a `route` to other tables")
                )
        if problems:
            raise SpecError(problems)

    def to_json(self) -> dict[str, Any]:
        """Serialize the rules to a JSON object for `from_json`."""
        rules = [[rule.source_table, rule.sink_table, rule.replace_symbol, rule.shard_column] for rule in self._rules]
        namespaces = {"namespaces": True} if self._namespaces else {}
        return {"rules": rules, "first_match": self._first_match, **namespaces}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RouteTable:
        """Read the routes that `to_json` wrote. Raises StateError when they are invalid."""
        try:
            rules = (StoredRule(*rule) for rule in fields["rules"])
            return cls(rules, first_match=bool(fields["first_match"]), namespaces=bool(fields.get("namespaces")))
        except (KeyError, TypeError) as error:
            raise StateError(f"routes in the log of sink schemas cannot be read: {error!r}", hint=RESTORE) from error


def collisions(tables: Iterable[TableId], route: RouteTable) -> list[str]:
    """Describe sink tables whose ids differ only in case, which many sinks ignore, or not in their spelling, such as
    `a.b`.`c` and `a`.`b.c`; empty when there are none.
    """
    spelled: defaultdict[str, dict[TableId, list[TableId]]] = defaultdict(dict)
    for table in sorted(set(tables)):
        for sink_table in route(table):
            names = spelled[str(sink_table).casefold()]
            names.setdefault(sink_table, []).append(table)
    return [
        "; ".join(f"{first_of(sources, 3)} would go to {name}" for name, sources in names.items())
        for names in spelled.values()
        if len(names) > 1
    ]


def _ambiguous_names(tables: Iterable[TableId]) -> list[str]:
    """Describe source tables that are spelled alike, as `a.b`.`c` and `a`.`b.c`: state, commands and sinks use that."""
    counts = Counter(map(str, set(tables)))
    return [f"{count} tables are spelled {text}" for text, count in counts.items() if count > 1]


class RouteGuard:
    """Refuses source tables that would not be distinct in the sink. Driver.

    It checks the tables as of the current position in the source's log: the source itself may already be ahead.
    """

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._tables: set[TableId] = set()

    def check(self, tables: Iterable[TableId]) -> None:
        """Check the tables of a batch before anything of it is applied. Raises SpecError; repeatable."""
        existing = set(tables)
        if existing != self._tables:
            self._routes.check(existing)
            self._tables = existing
