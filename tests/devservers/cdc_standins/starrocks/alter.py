"""ALTER TABLE: clauses to the table after them, with the refusals of the server and whether the change is fast."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_standins.sql_server import SqlError
from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.definitions import check_reserved, read_column
from cdc_standins.starrocks.errors import refused
from cdc_standins.starrocks.schema import Column, Table
from cdc_standins.starrocks.types import TEXT, ColumnType

_JSON_SIZE = 16
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT")
_WIDER = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "LARGEINT", "DOUBLE", "VARCHAR"},
    "SMALLINT": {"INT", "BIGINT", "LARGEINT", "DOUBLE", "VARCHAR"},
    "INT": {"BIGINT", "LARGEINT", "DOUBLE", "DATE", "VARCHAR"},
    "BIGINT": {"LARGEINT", "DOUBLE", "VARCHAR"},
    "LARGEINT": {"VARCHAR"},
    "FLOAT": {"DOUBLE", "VARCHAR"},
    "DOUBLE": {"VARCHAR"},
    "CHAR": {"CHAR", "VARCHAR"},
    "VARCHAR": {*_NUMBERS, "FLOAT", "DOUBLE", "DATE", "JSON", "DECIMAL", "VARCHAR"},
    "DECIMAL": {"DECIMAL", "VARCHAR"},
    "JSON": {"VARCHAR"},
    "DATE": {"DATETIME"},
    "DATETIME": {"DATE"},
}
"""From a type to those it may be changed to, besides itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """The columns after the clauses; `fast`: only metadata changes."""

    columns: tuple[Column, ...]
    fast: bool


def read_column_clauses(source: Parser, table: Table) -> Change:
    """`ADD COLUMN ..., DROP COLUMN ..., MODIFY COLUMN ...`. Raises SqlError where the server refuses."""
    columns = list(table.columns)
    added: set[str] = set()
    fast = table.fast_evolution
    while True:
        if source.take("ADD", "COLUMN"):
            _add(source, table, columns, added)
        elif source.take("DROP", "COLUMN"):
            fast &= _drop(table, columns, source.name())
        elif source.take("MODIFY", "COLUMN"):
            fast &= _modify(source, table, columns)
        else:
            raise source.wrong("ADD COLUMN, DROP COLUMN or MODIFY COLUMN")
        if not source.take(","):
            break
    source.end()
    if tuple(columns) == table.columns:
        raise refused("Nothing is changed. please check your alter stmt.")
    _check_order(table, columns)
    return Change(tuple(columns), fast)


def _add(source: Parser, table: Table, columns: list[Column], added: set[str]) -> None:
    column = read_column(source)
    name = column.name
    check_reserved(name, primary=table.primary)
    if name.lower() in added:
        raise refused(f"Repeatedly add column: {name}")
    if table.column(name) is not None:
        raise refused(f"Can not add column which already exists in base table: {name}")
    if not column.nullable and column.default is None:
        raise refused(f"Column has no default value. column: {name}")
    added.add(name.lower())
    columns.append(column)


def _drop(table: Table, columns: list[Column], name: str) -> bool:
    position = _position(columns, name)
    if position is not None and columns[position].key:
        if table.primary:
            raise refused("Can not drop key column in primary data model table")
        if len(table.keys) == 1:
            raise refused("Can not drop the only key column")
    if position is None:
        raise refused(f"Column does not exists: {name}")
    if name.lower() in (it.lower() for it in table.distribution):
        raise refused(f"Distribution column[{name}] cannot be dropped")
    return not columns.pop(position).key


def _modify(source: Parser, table: Table, columns: list[Column]) -> bool:
    new = read_column(source)
    position = _position(columns, new.name)
    if position is None:
        raise refused(f"Column[{new.name}] does not exists")
    old = columns[position]
    new = replace(new, name=old.name, id=old.id, key=old.key)
    if old.key and table.primary:
        new = replace(new, nullable=False)
        longer = old.type.name == new.type.name == "VARCHAR" and new.type.length >= old.type.length
        if not longer:
            message = (
                f"Can not modify key column: {old.name} for primary key table except for increasing varchar length"
            )
            raise refused(message)
    _check_change(old, new)
    _check_distribution(table, old, new)
    columns[position] = new
    same_type = old.type == new.type or (old.type.name == new.type.name == "VARCHAR")
    return same_type and old.nullable == new.nullable


def _check_distribution(table: Table, old: Column, new: Column) -> None:
    if old.type.name != new.type.name and old.name.lower() in (it.lower() for it in table.distribution):
        raise refused(f"Can not change distribution column: {old.name}")


def _check_change(old: Column, new: Column) -> None:
    if not type_change_allowed(old.type, new.type):
        raise refused(f"Can not change {str(old.type).upper()} to {str(new.type).upper()}")
    if old.nullable and not new.nullable:
        raise refused("Can not change from nullable to non-nullable")
    if old.default != new.default:
        raise refused("Can not change default value")
    if old.type.name in TEXT and new.type.name in TEXT and new.type.length < old.type.length:
        raise refused("Cannot shorten string length")
    if old.type.name == "JSON" and new.type.name in TEXT and new.type.length <= _JSON_SIZE:
        raise refused(f"JSON needs minimum length of {_JSON_SIZE}")
    if old.type.name == new.type.name == "VARBINARY" and new.type.length < old.type.length:
        raise refused("Cannot shorten string length")


def type_change_allowed(old: ColumnType, new: ColumnType) -> bool:
    """The server's table of type changes."""
    if old.name == "DECIMAL" and new.name == "DECIMAL":
        return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
    if old.name == "DECIMAL" and new.name == "VARCHAR":
        return old.precision + 2 + (old.scale > 0) <= new.length
    return old.name == new.name or new.name in _WIDER.get(old.name, ())


def _check_order(table: Table, columns: list[Column]) -> None:
    keys = [column.key for column in columns]
    if keys != sorted(keys, reverse=True):
        raise refused(f"Invalid column order. value should be after key. index[{table.name}]")


def renamed(table: Table, old: str, new: str) -> tuple[Column, ...]:
    """The columns after RENAME COLUMN. Raises SqlError."""
    column = table.column(old)
    if column is None:
        raise refused(f"Column[{old}] not exists")
    check_reserved(new, primary=table.primary)
    if table.column(new) is not None:
        raise SqlError(f"Column[{new}] already exists", 1060, "42S21")
    return tuple(replace(it, name=new) if it is column else it for it in table.columns)


def _position(columns: list[Column], name: str) -> int | None:
    found = [position for position, column in enumerate(columns) if column.name.lower() == name.lower()]
    return found[0] if found else None
