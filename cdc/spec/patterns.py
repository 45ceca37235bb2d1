"""Table patterns of a pipeline file with their positions, and checks whether they can and do match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cdc.errors import Problem
from cdc.options import Block
from cdc.pattern import TablePattern, split_patterns
from cdc.pattern_options import Side, patterns_of
from cdc.schema import TableId
from cdc.spec import tree
from cdc.spec.explain import nearest

_DATABASE_PART = r"write database.table; all tables of a database are shop.\.* with both dots"
_SHOWN = 5


@dataclass(frozen=True)
class LocatedPattern:
    """A single pattern of an option.

    Attributes:
        file, line, column: its position; `path` is the option's, dotted.
        option: the path without the indexes of rules, which an edit of the file changes.
        text: the pattern.
        of: whether it matches tables of the source or of the sink.
        excludes: whether matching tables are excluded.
    """

    file: str
    line: int
    column: int
    path: str
    option: str
    text: str
    of: Side
    excludes: bool

    @cached_property
    def pattern(self) -> TablePattern:
        """The parsed pattern, case-insensitive."""
        return TablePattern(self.text)

    @property
    def name(self) -> str:
        """A name that no edit of other rules changes: `transform.source-table: shop.orders`."""
        return f"{self.option}: {self.text}"

    def problem(self, message: str, hint: str) -> Problem:
        """Return a problem at the pattern's position."""
        return Problem(self.file, self.line, self.column, self.path, message, hint)


def located_patterns(root: tree.Node, file: str, path: tree.Path, block: Block | None) -> Iterator[LocatedPattern]:
    """Yield every pattern in the options of a block of the file."""
    for option in patterns_of(block) if block is not None else ():
        kind = option.kind
        where = (*path, option.key)
        inner = (*where, option.text)
        by_key = isinstance(tree.find(root, where), tree.Mapping) and tree.find(root, inner) is not None
        mark = tree.mark_of(root, inner if by_key else where, key=by_key)
        names = ".".join(str(step) for step in where if isinstance(step, str))
        for text in split_patterns(option.text):
            yield LocatedPattern(file, mark.line, mark.column, tree.dotted(where), names, text, kind.of, kind.excludes)


def without_database(patterns: Iterable[LocatedPattern], parts: int) -> Iterator[Problem]:
    """Yield problems of source patterns that have fewer parts than a table id, and so match nothing."""
    for each in patterns:
        if each.of == "source" and each.pattern.fewest_parts < parts:
            yield each.problem(f"`{each.text}` is a pattern of one part, which matches no table", _DATABASE_PART)


def capture_conflicts(patterns: Sequence[LocatedPattern], captures: TablePattern | None) -> Iterator[Problem]:
    """Yield problems of patterns that cannot match a captured table, as far as the file shows."""
    if captures is None:
        return
    named = [each.plain for each in captures.separate()]
    tables = [table for table in named if table is not None and captures.matches(table)]
    closed = None not in named
    for each in (each for each in patterns if each.of == "source"):
        table = each.pattern.plain
        if each.excludes:
            if table is not None and not TablePattern(captures.include).matches(table):
                yield each.problem(f"`{each.text}` excludes nothing: no pattern of `tables` matches it", "remove it")
        elif table is not None and not captures.matches(table):
            yield each.problem(f"{each.text} is not captured, by `tables`", _meant(table, tables))
        elif table is None and closed and not any(map(each.pattern.matches, tables)):
            yield each.problem(f"`{each.text}` matches none of the tables in `tables`", _listed(tables))


def unmatched(
    patterns: Iterable[LocatedPattern], tables: Sequence[TableId], sink_tables: Sequence[TableId]
) -> list[Problem]:
    """Return problems of patterns that match none of the source's tables, or of the sink's for sink patterns."""
    found = []
    for each in patterns:
        among = tables if each.of == "source" else sink_tables
        if not each.excludes and not any(map(each.pattern.matches, among)):
            hint = "pipeline.unmatched-patterns: warn allows it, for a table that is created later"
            meant = _meant(each.pattern.plain, among)
            found.append(each.problem(f"no table matches `{each.text}`", f"{meant}; {hint}" if meant else hint))
    return found


def _meant(table: TableId | None, tables: Sequence[TableId]) -> str:
    if table is None:
        return ""
    name = nearest(str(table), map(str, tables))
    return f"did you mean `{name}`?" if name else ""


def _listed(tables: Sequence[TableId]) -> str:
    shown = ", ".join(map(str, tables[:_SHOWN]))
    return f"there is: {shown}{' ...' if len(tables) > _SHOWN else ''}"
