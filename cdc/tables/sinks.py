"""The sink tables while the events of a batch are taken one after another: schemas, states, operations. Pure; driver.

Every operation of a batch is planned here, whatever led to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.behavior import Behavior, Policy, behave
from cdc.evolution.merge import find, merge_schemas, same_key, without_defaults
from cdc.route import Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropShadow,
    DropTable,
    Kind,
    Position,
    RenameTable,
    SchemaChange,
    SourceStatement,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.tables.states import FRESH, Schemas, SinkState

_SHARD_TYPE = DataType(Kind.VARCHAR, 255)
_OF_WHOLE_TABLES = (CreateTable, DropTable, RenameTable, SwapShadow, TruncateTable)
_MIRRORS = (Behavior.EVOLVE, Behavior.TRY_EVOLVE, Behavior.EXCEPTION)


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice about a sink table that the user has to see.

    Attributes:
        text: follows the table's name; its first word is what the notice is counted under.
        done: tells of what is carried out; else a change is held back, or carried out in another way.
        expected: the schema that the sink table, which the pipeline may not create, has to have.
    """

    table: TableId
    text: str
    done: bool = False
    expected: TableSchema | None = None

    @property
    def name(self) -> str:
        """The name that the notice is counted under."""
        return self.text.split()[0].rstrip(":")


def with_shard(schema: TableSchema, target: Target) -> TableSchema:
    """A source table's schema with the target's shard column, if it has one, after the key. Raises ChangeRefused."""
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
    """The changes that lead from a schema to the one that it was merged to."""
    before = ""
    for column in new.columns:
        there = find(old, column.name)
        if there is None:
            yield AddColumn(table, column, Position(after=before) if before else Position(first=True))
        elif (there.type, there.nullable, there.source_type) != (column.type, column.nullable, column.source_type):
            yield AlterColumnType(table, column, there)
        before = column.name


class SinkMap:
    """The sink tables at one point of the batch; `operations` and `notices` are those so far.

    `shadows`: whether the sink has shadow tables. `statement`: of the source, that the next operations come from.
    """

    def __init__(self, policy: Policy, schemas: Schemas, states: Mapping[TableId, SinkState], *, shadows: bool) -> None:
        self.policy, self.shadows = policy, shadows
        self.schemas = dict(schemas)
        self._states = {table: replace(state, stale=frozenset()) for table, state in states.items()}
        self._stale = {table: set(state.stale) for table, state in states.items() if state.stale}
        self.notices: list[Notice] = []
        self.statement: SourceStatement | None = None
        self._planned: list[SchemaChange | None] = []
        self._created: dict[TableId, int] = {}
        """Tables that this batch creates, and the place of their CreateTable."""

    @property
    def operations(self) -> tuple[SchemaChange, ...]:
        """The operations planned so far, in order."""
        return tuple(planned for planned in self._planned if planned is not None)

    @property
    def states(self) -> dict[TableId, SinkState]:
        """The states of the tables that are not as any other."""
        found = {}
        for table in {**self._states, **self._stale}:
            state = replace(self.state(table), stale=frozenset(self._stale.get(table, ())))
            if state != FRESH:
                found[table] = state
        return found

    def scratch(self) -> SinkMap:
        """A copy to try operations on."""
        other = copy(self)
        other.schemas, other._states = dict(self.schemas), dict(self._states)
        other._stale = {table: set(stale) for table, stale in self._stale.items()}
        other.notices, other._planned, other._created = [], list(self._planned), dict(self._created)
        return other

    def state(self, table: TableId) -> SinkState:
        """The state of a table, but for what is stale."""
        return self._states.get(table, FRESH)

    def merge(self, table: TableId) -> None:
        """Several source tables go to the table from here on."""
        self._states[table] = replace(self.state(table), merged=True)

    def remember_rows(self, table: TableId, source: TableId) -> None:
        """Rows of a source table that nobody follows any more stay in the table."""
        self._stale.setdefault(table, set()).add(source)

    def is_stale(self, table: TableId, source: TableId) -> bool:
        """Whether rows of a source table from an earlier time are in the table."""
        return source in self._stale.get(table, ())

    def rename_rows(self, table: TableId, source: TableId, new: TableId) -> None:
        """A source table, of which stale rows may be in the table, has another name."""
        if self.is_stale(table, source):
            self._stale[table].discard(source)
            self._stale[table].add(new)

    def add_notice(self, table: TableId, text: str, *, done: bool = False, expected: TableSchema | None = None) -> None:
        """A notice for the user."""
        self.notices.append(Notice(table, text, done, expected))

    def behave(self, change: SchemaChange, source: TableSchema | None) -> None:
        """Plan what the behavior makes of a change of a table that is there; `source`: the source's schema after it.

        Raises ChangeRefused where the run stops at it.
        """
        outcome = behave(self.policy, change, self.schemas[change.table], source)
        for each in outcome.changes:
            self.plan(each)
        if outcome.held:
            self.add_notice(change.table, outcome.held)

    def create(self, new: CreateTable, source: TableId, members: Collection[TableId]) -> None:
        """A source table comes; `members` go to the sink table by now. Raises ChangeRefused where it does not fit."""
        table, schema, there = new.table, new.schema, self.schemas.get(new.table)
        if there is None:
            if self.policy.allows(new):
                self._created[table] = len(self._planned)
                self.plan(new)
            else:
                self.schemas[table] = schema
                text = "create.table is left out: the table has to be in the sink"
                self.add_notice(table, text, expected=schema)
            return
        self.check_key(table, schema, source, members)
        alone = not self.state(table).merged
        if alone and self._grows(there, schema):
            self.plan(replace(new, schema=self._widened(table, there, schema)))
        elif alone and merge_schemas(there, schema) == there:
            self.plan(replace(new, schema=there))
        else:
            self.widen(table, schema)

    def _widened(self, table: TableId, there: TableSchema, schema: TableSchema) -> TableSchema:
        """A table's new schema with room for the rows that are there, whose columns are made wide enough for it."""
        for change in widening(table, there, merge_schemas(there, schema)):
            if isinstance(change, AlterColumnType) and find(schema, change.column.name) is not None:
                self.behave(replace(change, keeps=True), schema)
        known = self.schemas[table]
        columns = [
            column if (found := find(known, column.name)) is None else replace(column, type=found.type)
            for column in schema.columns
        ]
        return replace(schema, columns=tuple(columns))

    def _grows(self, there: TableSchema, schema: TableSchema) -> bool:
        """Whether CreateTable may come again for a table, with all columns it has and perhaps more."""
        wider = {*there.names} < {*schema.names}
        return (
            self.policy.behavior in _MIRRORS
            and {*there.names} <= {*schema.names}
            and (self.policy.adds_columns or not wider)
        )

    def check_key(self, table: TableId, schema: TableSchema, source: TableId, members: Collection[TableId]) -> None:
        """Raise ChangeRefused where rows of a source table of this schema could not be told apart in the table."""
        there = self.schemas[table]
        if same_key(there, schema):
            return
        ours, theirs = (f"({', '.join(key)})" if key else "no key" for key in (schema.primary_key, there.primary_key))
        other = min((each for each in members if each != source), default=None)
        whose = f", as {other} has" if other is not None else ""
        raise ChangeRefused(
            f"{source} has {ours}, the sink's table has {theirs}{whose}: its rows could not be told apart",
            where=str(table),
            hint="give them one key with a transform rule (primary-keys), or route them to different tables",
        )

    def widen(self, table: TableId, source: TableSchema, copied: str = "", added: str = "") -> None:
        """Make the table wide enough for a source table of this schema too.

        `copied` is the column whose values are read again, `added` the one that the source table has got: only its
        default is for rows that are there.
        """
        there = self.schemas[table]
        new = without_defaults(merge_schemas(there, source), there, added)
        if table in self._created:
            place = self._created[table]
            created = self._planned[place]
            assert isinstance(created, CreateTable), "it is noted where it was created"
            self._planned[place] = replace(created, schema=new)
            self.schemas[table] = new
            return
        for change in widening(table, there, new):
            if isinstance(change, AlterColumnType):
                change = replace(change, copied=change.column.name.casefold() == copied.casefold(), keeps=True)
            self.behave(change, new)

    def plan(self, operation: SchemaChange) -> None:
        """Plan an operation; schemas and states are those after it from here on."""
        operation = replace(operation, statement=self.statement)
        if not isinstance(operation, CreateTable):
            self._created.pop(operation.table, None)
        if isinstance(operation, RenameTable):
            self.schemas = apply_changes(self.schemas, [operation])
        else:
            new = apply_change(self.schemas.get(operation.table), operation)
            if new is None:
                self.schemas.pop(operation.table, None)
            else:
                self.schemas[operation.table] = new
        self._follow(operation)
        self._planned.append(operation)

    def _follow(self, operation: SchemaChange) -> None:
        """The state of the operation's table after it."""
        table, state = operation.table, self.state(operation.table)
        match operation:
            case CreateShadow(schema=schema):
                self._without_shadow_operations(table)
                own = schema if schema != self.schemas[table] else None
                self._states[table] = replace(state, shadowed=self.shadows, shadow=own)
            case DropShadow():
                self._without_shadow_operations(table)
                self._states[table] = replace(state, shadowed=False, shadow=None)
            case TruncateTable() | DropTable() | SwapShadow():  # the shadow table goes with them
                self._states[table] = replace(state, shadowed=False, shadow=None)
                self._stale.pop(table, None)
            case RenameTable(new_table=new):
                self._states.pop(table, None)
                self._states[new] = replace(state, shadowed=False, shadow=None)
                self._stale.pop(new, None)
                if table in self._stale:
                    self._stale[new] = self._stale.pop(table)
            case _:
                pass

    def _without_shadow_operations(self, table: TableId) -> None:
        """A shadow table that this batch creates or drops, and nothing happens to since, need not be."""
        for place in reversed(range(len(self._planned))):
            planned = self._planned[place]
            if planned is not None and planned.table == table:
                if isinstance(planned, _OF_WHOLE_TABLES):
                    return
                if isinstance(planned, CreateShadow | DropShadow):
                    self._planned[place] = None
                    return
