"""Applies CREATE TABLE and ALTER TABLE to definitions, as the servers do. Pure.

An ALTER works in two rounds, like `mysql_prepare_alter_table` of sql/sql_table.cc: first existing columns, in their
order, are dropped, renamed and changed in place; then added and moved columns take their positions in the order of the
clauses. `AFTER x` therefore refers to the new names, everything else in a statement to the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from cdc.errors import SchemaUnknown
from cdc.schema import Position, TableId
from connectors.mysql.ddl.certain import uncertain_beyond_types, uncertain_by_types
from connectors.mysql.ddl.certain_default import uncertain_default, unsupported_default
from connectors.mysql.ddl.computed import computed_from, is_collated, is_retyped, redefinition
from connectors.mysql.ddl.defaults import default_text, fill_text, literal_text, value_text
from connectors.mysql.ddl.resolve import in_charset, resolve_column
from connectors.mysql.ddl.rewritten import rewritten_by_session, rewritten_text
from connectors.mysql.ddl.same_column import with_added_columns_defined
from connectors.mysql.ddl.versions import NEVER, ROW_VERSIONS, with_versions, without_versions
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.shared.ddl.charsets import charset_of
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.statements import (
    AddColumnClause,
    AddPrimaryKeyClause,
    AlterTableStatement,
    ChangeColumnClause,
    Clause,
    ColumnDefinition,
    ConvertClause,
    CreateTableStatement,
    Default,
    DefaultKind,
    DropColumnClause,
    DropPrimaryKeyClause,
    NotNullClause,
    OptionsClause,
    RenameColumnClause,
    SetDefaultClause,
    TableOptions,
    VersioningClause,
    VisibilityClause,
)

_C = TypeVar("_C", bound=Clause)
_COMMENT_CHARS = 2048
"""Characters that a server keeps of a longer table comment, in non-strict sessions."""
_ZERO = Default(DefaultKind.NUMBER, "0")

_DATES = frozenset({"date", "datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class UnloggedValues:
    """The reason why the log does not show values of existing rows.

    `unseen`: the sink does not notice it either when it applies the change, so the user is warned if nothing is copied.
    """

    reason: str
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """An altered table.

    Attributes:
        origins: each column's old name, None for added ones.
        fills: values of existing rows in added columns, where they differ from the column's default.
        uncertain: one for each column with uncertain values.
        uncertain_key: they include a column of the primary key.
    """

    table: MySqlTable
    origins: Mapping[str, str | None]
    fills: Mapping[str, str | None]
    uncertain: tuple[UnloggedValues, ...] = ()
    uncertain_key: bool = False


def created(statement: CreateTableStatement, *, database_charset: str, dialect: DdlDialect) -> MySqlTable:
    """Return the table that CREATE TABLE with explicit columns makes."""
    options = statement.options
    charset = _option_charset(options, database_charset) or database_charset
    columns = [resolve_column(column, charset, dialect) for column in statement.columns]
    if not dialect.explicit_timestamps:
        columns = _automatic_timestamps(columns, statement.columns, dialect)
    key = tuple(_actual(columns, name, statement.table) for name in statement.primary_key)
    fixed = {name.lower() for name in (*key, *statement.not_null)}
    columns = [replace(column, nullable=False) if column.name.lower() in fixed else column for column in columns]
    table = MySqlTable(statement.table, tuple(columns), key, charset, (options.comment or "")[:_COMMENT_CHARS])
    versioned = options.versioned or any(column.versioned for column in statement.columns)
    return with_versions(table, statement.row_end) if versioned else table


def altered(
    table: MySqlTable,
    statement: AlterTableStatement,
    *,
    database_charset: str,
    dialect: DdlDialect,
    executed_at: datetime | None = None,
    tinyint1_as_boolean: bool = False,
) -> AlteredTable:
    """Return the table after ALTER TABLE, under its old name. Raises SchemaUnknown when it does not fit the definition.

    `executed_at` is the value of CURRENT_TIMESTAMP, in seconds; existing rows get it in an added TIMESTAMP column.
    `tinyint1_as_boolean` is as in `uncertain_column`.
    """
    return _Alteration(table, statement.clauses, database_charset, dialect, executed_at, tinyint1_as_boolean).result()


class _Alteration:
    """An ALTER TABLE in progress: columns in their new order, identified only by their position."""

    def __init__(
        self,
        table: MySqlTable,
        clauses: tuple[Clause, ...],
        database_charset: str,
        dialect: DdlDialect,
        executed_at: datetime | None,
        tinyint1_as_boolean: bool,
    ) -> None:
        self.versioned, self.turned = table.columns[-2:] == ROW_VERSIONS, False
        self.table = without_versions(table) if self.versioned else table
        self.clauses = with_added_columns_defined(self.table, clauses)
        self.dialect, self.executed_at = dialect, executed_at
        self.tinyint1_as_boolean = tinyint1_as_boolean
        self.charset, self.convert_to, self.comment = table.charset, "", table.comment
        self.columns: list[MySqlColumn] = []
        self.taken: set[str] = set()
        self.origins: dict[str, str | None] = {}
        self.fills: dict[str, str | None] = {}
        self.uncertain: dict[str, UnloggedValues] = {}
        self._options(database_charset)

    def result(self) -> AlteredTable:
        self._in_place()
        self._place_columns()
        key = self._primary_key()
        fixed = {name.lower() for name in key}
        for clause in self._of(NotNullClause):
            fixed |= {name.lower() for name in clause.columns}
        columns = tuple(self._fixed(c) if c.name.lower() in fixed else c for c in self.columns)
        shown = {clause.name.lower(): clause.visible for clause in self._of(VisibilityClause)}
        columns = tuple(c.shown(visible=shown[name]) if (name := c.name.lower()) in shown else c for c in columns)
        table = replace(self.table, columns=columns, primary_key=key, charset=self.charset, comment=self.comment)
        if self.versioned:
            table = self._with_versions(table)
        old_key = {name.lower() for name in self.table.primary_key}
        return AlteredTable(
            table, self.origins, self.fills, tuple(self.uncertain.values()),
            uncertain_key=self.turned or key != self.table.primary_key or not old_key.isdisjoint(self.uncertain),
        )  # fmt: skip

    def _with_versions(self, table: MySqlTable) -> MySqlTable:
        """Return the table with version columns, which its rows have from here on."""
        declared = next((clause.column.name for clause in self._of(AddColumnClause) if clause.column.row_end), None)
        if declared is None:
            self.origins |= {column.name: None if self.turned else column.name for column in ROW_VERSIONS}
        if self.turned:
            self.fills[declared or ROW_VERSIONS[1].name] = NEVER
        return with_versions(table, declared)

    def _fixed(self, column: MySqlColumn) -> MySqlColumn:
        """Make a column NOT NULL because of a key or a constraint."""
        origin = self.origins[column.name]
        fixed = replace(column, nullable=False)
        old = None if origin is None else self._find(self.table.columns, origin)
        if old is not None and old.nullable and column.nullable:
            self._note_changed(column, fixed, old.name)
        return fixed

    def _options(self, database_charset: str) -> None:
        stays = False  # MariaDB: an explicit default charset of the statement overrides that of a CONVERT
        for clause in self.clauses:
            if isinstance(clause, ConvertClause):
                self.convert_to = clause.charset or database_charset
                self.charset = self.charset if stays else self.convert_to
            elif isinstance(clause, OptionsClause):
                charset = _option_charset(clause.options, database_charset)
                self.charset = charset or self.charset
                stays = stays or (charset is not None and self.dialect.mariadb)
                if clause.options.comment is not None:
                    self.comment = clause.options.comment[:_COMMENT_CHARS]
            elif isinstance(clause, VersioningClause):
                self.versioned, self.turned = clause.on, True
                self._note_uncertain("", "rows of the past came or went with system versioning")

    def _in_place(self) -> None:
        """First round: existing columns."""
        dropped = self._by_old_name(DropColumnClause, lambda clause: clause.name)
        renamed = self._by_old_name(RenameColumnClause, lambda clause: clause.old_name)
        changed = self._by_old_name(ChangeColumnClause, lambda clause: clause.old_name)
        defaults = self._by_old_name(SetDefaultClause, lambda clause: clause.name)
        retyped = list[str]()
        for column in self.table.columns:
            name = column.name.lower()
            if name in dropped:
                continue
            if name in changed:
                written = changed[name].column
                new = self._resolved(written)
                if name in defaults:
                    new = replace(new, default=default_text(defaults[name].default, new, self.dialect))
                reason = redefinition(column, new, keeps_zeros=self.dialect.keeps_zeros)
                self._note_uncertain(column.name, reason, unseen=True)
                self._note_rewritten(column, new)
                collated = is_collated(written) or bool(self.convert_to)
                if new.generated or new.default != column.default or is_retyped(column, new, collated=collated):
                    retyped.append(column.name)
                self._insert(new, column.name, None)
                continue
            new = in_charset(column, self.convert_to, self.dialect) if self.convert_to else column
            self._note_rewritten(column, new)
            if name in defaults or is_retyped(column, new, collated=bool(self.convert_to)):
                retyped.append(column.name)
            if name in defaults:
                new = replace(new, default=default_text(defaults[name].default, new, self.dialect))
            if name in renamed:
                new = replace(new, name=renamed[name].new_name)
            self._insert(new, column.name, None)
        if self.dialect.mariadb and self.charset != self.table.charset:
            retyped.append("its literals, which have the table's character set")
        for name, reason in computed_from(self.columns, retyped):
            self._note_uncertain(name, reason, unseen=True)

    def _place_columns(self) -> None:
        """Second round: added and moved columns."""
        for clause in self.clauses:
            if isinstance(clause, ChangeColumnClause) and clause.position is not None:
                column = self._find(self.columns, clause.column.name)
                if column is not None:
                    self.columns.remove(column)
                    self.taken.discard(column.name.lower())
                    self._insert(column, self.origins[column.name], clause.position)
            elif isinstance(clause, AddColumnClause):
                if clause.if_not_exists and self._has_column(clause.column.name):
                    continue
                column = self._resolved(clause.column)
                self._insert(column, None, clause.position)
                self._note_values(clause.column, column)

    def _has_column(self, name: str) -> bool:
        """Return whether a column of the name exists before the statement, whatever happens to it, or by now."""
        return any(self._find(columns, name) is not None for columns in (self.table.columns, self.columns))

    def _note_values(self, written: ColumnDefinition, column: MySqlColumn) -> None:
        """Record values that the server computed for existing rows if they can be known, else their uncertainty."""
        default = written.default.kind if written.default is not None else None
        silent = written.default is None and not column.nullable
        automatic = column.type == "timestamp" and silent and not self.dialect.explicit_timestamps
        seconds = column.type == "timestamp" and not column.length
        if default is DefaultKind.NOW and seconds and self.executed_at is not None:
            self.fills[column.name] = self.executed_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        elif (
            written.auto_increment
            or column.generated
            or automatic
            or default in (DefaultKind.EXPRESSION, DefaultKind.NOW)
        ):
            reason = f"the server computed column {column.name} of rows already there"
            self._note_uncertain(column.name, reason, unseen=True)
        else:
            if written.default is not None and written.default.bracketed:
                self.fills[column.name] = value_text(literal_text(written.default, column), column)
            self._note_constant(written.default, column)

    def _note_constant(self, default: Default | None, column: MySqlColumn) -> None:
        """Record whether a constant's value in existing rows depends on the server, or is unsupported by some sinks."""
        fill = self.fills.get(column.name, fill_text(column))
        reason = uncertain_default(column, default, fill)
        self._note_uncertain(column.name, reason or unsupported_default(column, fill), unseen=bool(reason))

    def _note_rewritten(self, old: MySqlColumn, new: MySqlColumn) -> None:
        """Record values that the server may have changed.

        To the sink, text and booleans look the same before and after; an invalid date is NULL there, whatever it
        becomes.
        """
        without_dates = old.type in _DATES and new.type not in _DATES
        was_boolean = self.tinyint1_as_boolean and old.type == "tinyint" and old.length == 1
        unseen = bool(rewritten_text(old, new)) or was_boolean or without_dates
        self._note_changed(old, new, old.name, unseen=unseen)

    def _note_changed(self, old: MySqlColumn, new: MySqlColumn, name: str, *, unseen: bool = False) -> None:
        strict, boolean = self.dialect.strict, self.tinyint1_as_boolean
        by_session = rewritten_by_session(old, new, self.dialect)
        hidden = by_session or uncertain_beyond_types(old, new, strict=strict, tinyint1_as_boolean=boolean)
        reason = hidden or uncertain_by_types(old, new, strict=strict, tinyint1_as_boolean=boolean)
        self._note_uncertain(name, reason, unseen=unseen or bool(hidden))

    def _note_uncertain(self, column: str, reason: str, *, unseen: bool = False) -> None:
        if reason:
            self.uncertain.setdefault(column.lower(), UnloggedValues(reason, unseen))

    def _insert(self, column: MySqlColumn, origin: str | None, position: Position | None) -> None:
        if column.name.lower() in self.taken:
            raise _does_not_fit(self.table.id, f"makes a column {column.name}, which is there already")
        self.taken.add(column.name.lower())
        self.origins[column.name] = origin
        if position is not None and position.first:
            after_key = any(one.generated_key for one in self.columns[:1])
            self.columns.insert(int(after_key), column)
        elif position is not None and position.after is not None:
            after = self._find(self.columns, position.after)
            if after is None:
                raise _does_not_fit(self.table.id, f"puts a column after {position.after}, which is not there")
            self.columns.insert(self.columns.index(after) + 1, column)
        else:
            self.columns.append(column)

    def _resolved(self, definition: ColumnDefinition) -> MySqlColumn:
        column = resolve_column(definition, self.charset, self.dialect)
        return in_charset(column, self.convert_to, self.dialect) if self.convert_to else column

    def _primary_key(self) -> tuple[str, ...]:
        dropped = any(True for _ in self._of(DropPrimaryKeyClause))
        parts = [] if dropped else [self._key_part(name) for name in self.table.primary_key]
        key = tuple(name for name in parts if name is not None)
        for clause in self._of(AddPrimaryKeyClause):
            if not (clause.if_not_exists and key):
                key = tuple(_actual(self.columns, name, self.table.id) for name in clause.columns)
        return key

    def _key_part(self, name: str) -> str | None:
        """Return the column that takes over an old column's part in the key.

        That is the old one under its new name, or an added one with its name, whichever comes first.
        """
        for column in self.columns:
            origin = self.origins[column.name]
            if origin == name or (origin is None and column.name.lower() == name.lower()):
                return column.name
        return None

    def _by_old_name(self, kind: type[_C], name_of: Callable[[_C], str]) -> dict[str, _C]:
        """Return the clauses of a kind by the old column they name; one with a missing column must say IF EXISTS."""
        found: dict[str, _C] = {}
        for clause in self._of(kind):
            name = name_of(clause)
            if self._find(self.table.columns, name) is not None:
                found[name.lower()] = clause
            elif not getattr(clause, "if_exists", False):
                raise _does_not_fit(self.table.id, f"names column {name}, which is not there")
        return found

    def _of(self, kind: type[_C]) -> Iterator[_C]:
        return (clause for clause in self.clauses if isinstance(clause, kind))

    @staticmethod
    def _find(columns: Iterable[MySqlColumn], name: str) -> MySqlColumn | None:
        return next((column for column in columns if column.name.lower() == name.lower()), None)


def _option_charset(options: TableOptions, database_charset: str) -> str | None:
    if options.charset is not None:
        return options.charset
    if options.collation is not None and (charset := charset_of(options.collation)):
        return charset
    return database_charset if options.default_charset else None


def _automatic_timestamps(
    columns: list[MySqlColumn], written: tuple[ColumnDefinition, ...], dialect: DdlDialect
) -> list[MySqlColumn]:
    """Without explicit_defaults_for_timestamp, the first TIMESTAMP defaults to now, the others to the zero date."""
    result, first = [], True
    for column, definition in zip(columns, written, strict=True):
        if column.type == "timestamp":
            silent = definition.default is None and not column.nullable and not column.generated
            if silent and (not first or definition.updated_now):
                column = replace(column, default=default_text(_ZERO, column, dialect))
            first = False
        result.append(column)
    return result


def _actual(columns: Iterable[MySqlColumn], name: str, table: TableId) -> str:
    """Return the column's name as spelled in its definition."""
    for column in columns:
        if column.name.lower() == name.lower():
            return column.name
    raise _does_not_fit(table, f"names column {name}, which is not there")


def _does_not_fit(table: TableId, what: str) -> SchemaUnknown:
    return SchemaUnknown(
        f"a statement in the log {what}",
        where=str(table),
        hint="the log is older or newer than the table definition that reading began with: start from a position "
        "after the last change of this table, or set binlog_row_metadata=FULL on the server",
    )
