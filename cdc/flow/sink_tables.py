"""The sink's tables while the changes of a batch are taken one after another: what is there, and what is to be done.

Every change that is to be carried out goes through here, whatever it came from. Pure; driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.behavior import Behavior, Policy, behave
from cdc.evolution.merge import find, merged, same_key, without_defaults
from cdc.flow.sink_schemas import Marks
from cdc.route import RouteTable, Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    Kind,
    Position,
    RenameTable,
    SchemaChange,
    SourceStatement,
    TableId,
    TableSchema,
)

_SHARD_TYPE = DataType(Kind.VARCHAR, 255)
_MIRRORS = (Behavior.EVOLVE, Behavior.TRY_EVOLVE, Behavior.EXCEPTION)


@dataclass(frozen=True, slots=True)
class Held:
    """What a sink table did not get, or got otherwise: the change's name, and a text that follows the table's.

    `done`: it is no change that was held back, the text tells of what is carried out. `expected`: what the table, which
    is not created, has to be.
    """

    table: TableId
    change: str
    text: str
    done: bool = False
    expected: TableSchema | None = None


@dataclass(frozen=True)
class Sides:
    """The tables on both sides at one point of the log.

    Attributes:
        sources, sinks: their schemas.
        marks: what else is known of the sink's tables.
    """

    sources: Mapping[TableId, TableSchema] = field(default_factory=dict)
    sinks: Mapping[TableId, TableSchema] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)


def with_shard(schema: TableSchema, target: Target) -> TableSchema:
    """A source table's schema with the target's shard column, if it has one, behind the key. Raises ChangeRefused."""
    name = target.shard_column
    if name is None:
        return schema
    if find(schema, name) is not None:
        reason = f"the source table has a column {name}, which shard-column is to add"
        raise ChangeRefused(reason, where=str(target.table), hint="choose another name for shard-column")
    place = max((schema.names.index(part) + 1 for part in schema.primary_key), default=0)
    column = Column(name, _SHARD_TYPE, nullable=False)
    return replace(
        schema,
        columns=(*schema.columns[:place], column, *schema.columns[place:]),
        primary_key=(*schema.primary_key, name) if schema.primary_key else (),
    )


def widening(table: TableId, old: TableSchema, new: TableSchema) -> Iterator[AddColumn | AlterColumnType]:
    """The changes that lead from a schema to what it was merged to."""
    before = ""
    for column in new.columns:
        there = find(old, column.name)
        if there is None:
            yield AddColumn(table, column, Position(after=before) if before else Position(first=True))
        elif (there.type, there.nullable) != (column.type, column.nullable):
            yield AlterColumnType(table, column, there)
        before = column.name


class SinkTables:
    """The tables on both sides. `out` is what is to be carried out, `held` what is not."""

    def __init__(
        self, route: RouteTable, policy: Policy, before: Sides, copies: Callable[[TableId], bool] | None = None
    ) -> None:
        self._route, self._policy, self._copies = route, policy, copies
        self.sources, self.sinks = dict(before.sources), dict(before.sinks)
        self.merged, self.over = set(before.marks.merged), set(before.marks.over)
        self.waiting, self.left = set(before.marks.waiting), set(before.marks.left)
        self.together = dict(before.marks.together)
        self.paused, self.resumed = set(before.marks.paused), set(before.marks.resumed)
        self.out: list[SchemaChange] = []
        self.held: list[Held] = []
        self._statement: SourceStatement | None = None  # of the change that is taken
        self._created: dict[TableId, int] = {}  # tables that are created here, with the place of their CreateTable
        self._members: dict[TableId, set[TableId]] = {}
        for source in before.sources:
            self._join(source)

    def after(self) -> Sides:
        """The tables as they are by now."""
        marks = Marks(
            frozenset(self.merged), frozenset(self.over), frozenset(self.waiting), frozenset(self.left), self.together,
            self._route.to_json(), frozenset(self.paused), frozenset(self.resumed),
        )  # fmt: skip
        return Sides(self.sources, self.sinks, marks)

    def _join(self, source: TableId) -> None:
        for target in self._route.targets(source):
            members = self._members.setdefault(target.table, set())
            members.add(source)
            if len(members) > 1:
                self.merged.add(target.table)

    def _leave(self, source: TableId) -> None:
        for target in self._route.targets(source):
            self._members.get(target.table, set()).discard(source)

    def _behave(self, change: SchemaChange, there: TableSchema, source: TableSchema | None) -> None:
        outcome = behave(self._policy, change, there, source)
        for each in outcome.changes:
            self._emit(each)
        if outcome.held:
            self._hold(change.table, outcome.held)

    # tables that come

    def _create(self, new: CreateTable, source: TableId, there: TableSchema | None) -> None:
        table, schema = new.table, new.schema
        if there is None:
            if self._policy.allows(new):
                self._created[table] = len(self.out)
                self._emit(new)
            else:
                self.sinks[table] = schema
                self._hold(table, "create.table is left out: the table has to be in the sink", expected=schema)
            return
        self._check_key(source, table, there, schema)
        if table not in self.merged and self._grows(there, schema):
            self._emit(replace(new, schema=self._widened(table, there, schema)))
        elif merged(there, schema) == there and table not in self.merged:
            self._emit(replace(new, schema=there))
        else:
            self._widen(table, there, schema)

    def _widened(self, table: TableId, there: TableSchema, schema: TableSchema) -> TableSchema:
        """A table's new schema with room for the rows that are there, whose columns are made wide enough for it."""
        for change in widening(table, there, merged(there, schema)):
            if isinstance(change, AlterColumnType) and find(schema, change.column.name) is not None:
                self._behave(replace(change, keeps=True), self.sinks[table], schema)
        known = self.sinks[table]
        columns = [
            column if (found := find(known, column.name)) is None else replace(column, type=found.type)
            for column in schema.columns
        ]
        return replace(schema, columns=tuple(columns))

    def _grows(self, there: TableSchema, schema: TableSchema) -> bool:
        """Whether a table may be told again to be there, with all columns it has and perhaps more."""
        wider = {*there.names} < {*schema.names}
        return (
            self._policy.behavior in _MIRRORS
            and {*there.names} <= {*schema.names}
            and (self._policy.adds_columns or not wider)
        )

    def _check_key(self, source: TableId, table: TableId, there: TableSchema, schema: TableSchema) -> None:
        if same_key(there, schema):
            return
        ours, theirs = (f"({', '.join(key)})" if key else "no key" for key in (schema.primary_key, there.primary_key))
        others = sorted(self._members.get(table, set()) - {source})
        whose = f", as {others[0]} has" if others else ""
        raise ChangeRefused(
            f"{source} has {ours}, the sink's table has {theirs}{whose}: its rows could not be told apart",
            where=str(table),
            hint="give them one key with a transform rule (primary-keys), or route them to different tables",
        )

    def _widen(
        self, table: TableId, there: TableSchema, source: TableSchema, copied: str = "", added: str = ""
    ) -> None:
        """Make the sink's table wide enough for a source table of this schema too.

        `copied` is the column whose values are copied anew, `added` the one that the source table has got: only its
        default is for rows that are there.
        """
        new = without_defaults(merged(there, source), there, added)
        if table in self._created:
            created = self.out[self._created[table]]
            assert isinstance(created, CreateTable), "it is noted where it was created"
            self.out[self._created[table]] = replace(created, schema=new)
            self.sinks[table] = new
            return
        for change in widening(table, there, new):
            if isinstance(change, AlterColumnType):
                change = replace(change, copied=change.column.name.casefold() == copied.casefold(), keeps=True)
            self._behave(change, self.sinks[table], new)

    def _emit(self, change: SchemaChange) -> None:
        change = replace(change, statement=self._statement)
        if not isinstance(change, CreateTable):
            self._created.pop(change.table, None)
        self.sinks = apply_changes(self.sinks, [change]) if isinstance(change, RenameTable) else self.sinks
        if not isinstance(change, RenameTable):
            new = apply_change(self.sinks.get(change.table), change)
            if new is None:
                del self.sinks[change.table]
            else:
                self.sinks[change.table] = new
        self.out.append(change)

    def _hold(self, table: TableId, text: str, *, done: bool = False, expected: TableSchema | None = None) -> None:
        self.held.append(Held(table, text.split()[0].rstrip(":"), text, done, expected))
