"""The sink tables while the events of a batch are handled: schemas, states, planned operations. Pure; driver.

All operations of a batch are planned here.
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
    """A notice to the user about a sink table.

    Attributes:
        text: follows the table's name; the notice is counted under its first word.
        done: whether it is about something that is done; else about a change that is held back or done otherwise.
        expected: the schema that the sink table has to have, as the pipeline does not create it.
    """

    table: TableId
    text: str
    done: bool = False
    expected: TableSchema | None = None

    @property
    def name(self) -> str:
        """The name under which the notice is counted."""
        return self.text.split()[0].rstrip(":")


def with_shard(schema: TableSchema, target: Target) -> TableSchema:
    """A source table's schema with the target's shard column, if it has one, after the key. Raises ChangeRefused."""
    name = target.shard_column
    if name is None:
        return schema
    if find(schema, name) is not None:
        reason = f"the source table has a column {name} already, which shard-column would add"
        raise ChangeRefused(reason, where=str(target.table), hint="choose another name for shard-column")
    index = max((schema.names.index(part) + 1 for part in schema.primary_key), default=0)
    column = Column(name, _SHARD_TYPE, nullable=False)
    return replace(
        schema,
        columns=(*schema.columns[:index], column, *schema.columns[index:]),
        primary_key=(*schema.primary_key, name) if schema.primary_key else (),
    )


def widening(table: TableId, old: TableSchema, new: TableSchema) -> Iterator[AddColumn | AlterColumnType]:
    """Yield the changes that turn a schema into the one it was merged into."""
    before = ""
    for column in new.columns:
        existing = find(old, column.name)
        if existing is None:
            yield AddColumn(table, column, Position(after=before) if before else Position(first=True))
        elif (existing.type, existing.nullable, existing.source_type) != (
            column.type,
            column.nullable,
            column.source_type,
        ):
            yield AlterColumnType(table, column, existing)
        before = column.name


class SinkMap:
    """The sink tables after the events handled so far, with the `operations` and `notices` planned so far.

    `shadows`: whether the sink has shadow tables. `statement`: the source's statement that causes the next operations.
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
        """Tables created in this batch, with the index of their CreateTable."""

    @property
    def operations(self) -> tuple[SchemaChange, ...]:
        """The operations planned so far, in order."""
        return tuple(planned for planned in self._planned if planned is not None)

    @property
    def states(self) -> dict[TableId, SinkState]:
        """The states of tables that differ from the default state."""
        found = {}
        for table in {**self._states, **self._stale}:
            state = replace(self.state(table), stale=frozenset(self._stale.get(table, ())))
            if state != FRESH:
                found[table] = state
        return found

    def scratch(self) -> SinkMap:
        """A copy for trying operations."""
        other = copy(self)
        other.schemas, other._states = dict(self.schemas), dict(self._states)
        other._stale = {table: set(stale) for table, stale in self._stale.items()}
        other.notices, other._planned, other._created = [], list(self._planned), dict(self._created)
        return other

    def state(self, table: TableId) -> SinkState:
        """The state of a table, without its stale source tables."""
        return self._states.get(table, FRESH)

    def merge(self, table: TableId) -> None:
        """Mark the table as merged."""
        self._states[table] = replace(self.state(table), merged=True)

    def remember_rows(self, table: TableId, source: TableId) -> None:
        """Mark the rows of a source table that is no longer followed as stale."""
        self._stale.setdefault(table, set()).add(source)

    def is_stale(self, table: TableId, source: TableId) -> bool:
        """Whether the table has outdated rows of a source table."""
        return source in self._stale.get(table, ())

    def rename_rows(self, table: TableId, source: TableId, new: TableId) -> None:
        """Note the new name of a source table whose stale rows may be in the table."""
        if self.is_stale(table, source):
            self._stale[table].discard(source)
            self._stale[table].add(new)

    def add_notice(self, table: TableId, text: str, *, done: bool = False, expected: TableSchema | None = None) -> None:
        """Add a notice for the user."""
        self.notices.append(Notice(table, text, done, expected))

    def behave(self, change: SchemaChange, source: TableSchema | None) -> None:
        """Plan a change of an existing table as the behavior says; `source` is the source's schema after it.

        Raises ChangeRefused if the run has to stop.
        """
        outcome = behave(self.policy, change, self.schemas[change.table], source)
        for each in outcome.changes:
            self.plan(each)
        if outcome.held:
            self.add_notice(change.table, outcome.held)

    def create(self, new: CreateTable, source: TableId, members: Collection[TableId]) -> None:
        """Plan the creation of a table for a source table; `members` are routed to it already.

        Raises ChangeRefused if the source table does not fit into an existing table.
        """
        table, schema, existing = new.table, new.schema, self.schemas.get(new.table)
        if existing is None:
            if self.policy.allows(new):
                self._created[table] = len(self._planned)
                self.plan(new)
            else:
                self.schemas[table] = schema
                text = "create.table is left out: the table has to be in the sink"
                self.add_notice(table, text, expected=schema)
            return
        self.check_key(table, schema, source, members)
        unmerged = not self.state(table).merged
        if unmerged and self._grows(existing, schema):
            self.plan(replace(new, schema=self._widened(table, existing, schema)))
        elif unmerged and not any(widening(table, existing, merge_schemas(existing, schema))):
            self.plan(replace(new, schema=existing))
        else:
            self.widen(table, schema)

    def _widened(self, table: TableId, existing: TableSchema, schema: TableSchema) -> TableSchema:
        """Widen the columns of an existing table for the new schema; return that schema, widened for existing rows."""
        for change in widening(table, existing, merge_schemas(existing, schema)):
            if isinstance(change, AlterColumnType) and find(schema, change.column.name) is not None:
                self.behave(replace(change, keeps=True), schema)
        known = self.schemas[table]
        columns = [
            column if (found := find(known, column.name)) is None else replace(column, type=found.type)
            for column in schema.columns
        ]
        return replace(schema, columns=tuple(columns))

    def _grows(self, existing: TableSchema, schema: TableSchema) -> bool:
        """Whether CreateTable may be repeated for a table: the schema has all of its columns, and perhaps more."""
        wider = {*existing.names} < {*schema.names}
        return (
            self.policy.behavior in _MIRRORS
            and {*existing.names} <= {*schema.names}
            and (self.policy.adds_columns or not wider)
        )

    def check_key(self, table: TableId, schema: TableSchema, source: TableId, members: Collection[TableId]) -> None:
        """Raise ChangeRefused if the key of a source table differs from the table's: rows could collide."""
        existing = self.schemas[table]
        if same_key(existing, schema):
            return
        ours, theirs = (
            f"({', '.join(key)})" if key else "no key" for key in (schema.primary_key, existing.primary_key)
        )
        other = min((each for each in members if each != source), default=None)
        whose = f", as {other} has" if other is not None else ""
        raise ChangeRefused(
            f"{source} has {ours}, the sink's table has {theirs}{whose}: its rows could not be told apart",
            where=str(table),
            hint="give them one key with a transform rule (primary-keys), or route them to different tables",
        )

    def widen(self, table: TableId, source: TableSchema, copied: str = "", added: str = "") -> None:
        """Widen the table so that it also fits a source table of this schema.

        `copied` is the column whose values are read again by a snapshot; `added` is the column added in the source,
        the only one whose default applies to existing rows.
        """
        existing = self.schemas[table]
        new = without_defaults(merge_schemas(existing, source), existing, added)
        if table in self._created:
            index = self._created[table]
            created = self._planned[index]
            assert isinstance(created, CreateTable), "it is noted where it was created"
            self._planned[index] = replace(created, schema=new)
            self.schemas[table] = new
            return
        for change in widening(table, existing, new):
            if isinstance(change, AlterColumnType):
                change = replace(change, copied=change.column.name.casefold() == copied.casefold(), keeps=True)
            self.behave(change, new)

    def plan(self, operation: SchemaChange) -> None:
        """Plan an operation and apply it to the schemas and states."""
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
        """Apply an operation to the state of its table."""
        table, state = operation.table, self.state(operation.table)
        match operation:
            case CreateShadow(schema=schema):
                self._without_shadow_operations(table)
                known = self.schemas[table]
                same = schema is None or (schema, schema.own_types) == (known, known.own_types)
                changed = None if same else schema
                self._states[table] = replace(state, shadowed=self.shadows, shadow=changed)
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
        """Remove a planned creation or drop of the shadow table that became unnecessary within the batch."""
        for index in reversed(range(len(self._planned))):
            planned = self._planned[index]
            if planned is not None and planned.table == table:
                if isinstance(planned, _OF_WHOLE_TABLES):
                    return
                if isinstance(planned, CreateShadow | DropShadow):
                    self._planned[index] = None
                    return
