"""Which schema the tables need for messages: what fits, and what has to change first. Pure.

A table's columns are never taken away and never become narrower because of a message: another partition, or an older
message, may still have them. Columns outside the key take NULL, as a message of another age may lack them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdc.errors import SchemaUnknown
from cdc.schema import Column, TableId, TableSchema
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import TableGroup
from connectors.kafka.formats.widen import widened

DeclaredKey = Callable[[TableId], tuple[str, ...] | None]
"""The key columns that the pipeline file gives a table; None when it gives none."""


def fits(schema: TableSchema, fields: Iterable[Field]) -> bool:
    """Whether rows with these fields can be rows of the table as it is."""
    columns = {column.name: column.type for column in schema.columns}
    return all(
        item.name in columns and (not item.typed or widened(columns[item.name], item.column_type) == columns[item.name])
        for item in fields
    )


def merge_fields(
    table: TableId, schema: TableSchema | None, fields: tuple[Field, ...], key: tuple[str, ...] | None
) -> TableSchema:
    """The table's schema with what these fields need besides; `key` is that of the messages or the declared one.

    Raises SchemaUnknown when the key is another than the table has.
    """
    if schema is None:
        return _new(table, fields, key or ())
    check_key(table, schema, key)
    columns = list(schema.columns)
    place = 0
    for item in fields:
        found = next((number for number, column in enumerate(columns) if column.name == item.name), None)
        if found is None:
            columns.insert(place, Column(item.name, item.column_type, comment=item.comment))
        else:
            column = columns[found]
            wider = widened(column.type, item.column_type) if item.typed else column.type
            columns[found] = Column(column.name, wider, column.nullable, column.default, column.comment)
            place = found
        place += 1
    return TableSchema(tuple(columns), schema.primary_key, schema.comment)


def check_key(table: TableId, schema: TableSchema, key: tuple[str, ...] | None) -> None:
    """Raises SchemaUnknown when messages have other key columns than their table; None is what they do not tell."""
    if key is not None and key != schema.primary_key:
        raise SchemaUnknown(
            f"the key columns of the messages are ({', '.join(key)}), the table's are "
            f"({', '.join(schema.primary_key)})",
            where=str(table),
            hint="say which in primary-keys, or start over with an empty state directory and an empty sink table",
        )


def _new(table: TableId, fields: tuple[Field, ...], key: tuple[str, ...]) -> TableSchema:
    names = {item.name for item in fields}
    missing = [name for name in key if name not in names]
    if missing:
        raise SchemaUnknown(
            f"the key column {missing[0]} is not among the columns ({', '.join(sorted(names))})",
            where=str(table),
            hint="say which columns are the key in primary-keys",
        )
    columns = tuple(Column(item.name, item.column_type, item.name not in key, comment=item.comment) for item in fields)
    return TableSchema(columns, key)


def key_of(group: TableGroup, declared: DeclaredKey) -> tuple[str, ...] | None:
    """The key columns of a group: declared, else as its messages tell; None when neither does."""
    own = declared(group.table)
    return group.key if own is None else own
