"""The tables described by messages and the pipeline file: which are read, their keys, and whether rows fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.pattern import TablePattern
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.types.kinds import BLOBS
from connectors.kafka.formats import infer
from connectors.kafka.formats.blocks import Columns, RowCheck
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Format, MessageImages, Messages, TableGroup
from connectors.kafka.formats.widen import widened
from connectors.kafka.read.history import HistoryState
from connectors.kafka.source_options import KafkaSourceOptions

DeclaredKey = Callable[[TableId], tuple[str, ...] | None]
"""Gives the key columns that the pipeline file declares for a table; None when it declares none."""


class TopicTables:
    """The tables of a pipeline. Pure, except that it caches the matches of patterns; every process makes its own."""

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._wanted = options.captures()
        self._keys = [(TablePattern(pattern), tuple(key)) for pattern, key in options.primary_keys.items()]
        self._columns = [(TablePattern(pattern), options.types_of(pattern)) for pattern in options.columns]
        self._taken: dict[TableId, bool] = {}
        self._databases: dict[TableId, str] = {}
        self._unkeyed: set[TableId] = set()

    def captures(self, table: TableId) -> bool:
        """Whether a table is wanted."""
        found = self._taken.get(table)
        if found is None:
            found = self._taken[table] = self._wanted is None or self._wanted.matches(table)
        return found

    def check_database(self, group: TableGroup) -> None:
        """Raise UnsupportedChange when tables of two databases would become one, because schema and name are equal."""
        if group.database is None:
            return
        known = self._databases.setdefault(group.table, group.database)
        if known != group.database:
            raise UnsupportedChange(
                f"{group.table} is a table of the databases {known} and {group.database}",
                hint="read the topics of each database with a pipeline of its own",
            )

    def declared_key(self, table: TableId) -> tuple[str, ...] | None:
        """The key columns that the pipeline file declares for a table."""
        return next((key for pattern, key in self._keys if pattern.matches(table)), None)

    def described(self, group: TableGroup, found: Format) -> TableGroup:
        """The group with the types that the pipeline file declares for its columns."""
        types = self._declared(group.table)
        if not types or group.fields is None:
            return group
        return replace(group, fields=tuple(_declared(item, types.get(item.name), found) for item in group.fields))

    def refusal_of(self, group: TableGroup, known: HistoryState) -> SchemaUnknown | None:
        """Why no row of a group can be a row of its table, whatever the schema; None when one may be."""
        schema = known.schemas.get(group.table)
        try:
            if schema is None:
                self.needed(group, None)
            else:
                check_key(group.table, schema, key_of(group, self.declared_key))
        except SchemaUnknown as error:
            return error
        return None

    def first_unfit(self, group: TableGroup, known: HistoryState, topic: str) -> int | None:
        """The number of the first message whose rows need another schema of the table; None when none does.

        If the history does not know that the topic has rows of the table, the first message needs an entry too.
        """
        schema = known.schemas.get(group.table)
        first = int(group.images.messages[0])
        if schema is None or topic not in known.topics.get(group.table, ()):
            return first
        if group.fields is not None:
            return None if fits(schema, group.fields) else first
        needs = self._unfit(group.images, schema, group.table).needs
        return int(group.images.messages[np.argmax(needs)]) if needs.any() else None

    def row_check(self, table: TableId, schema: TableSchema) -> RowCheck:
        """A function that tells why rows of messages without a description cannot be rows of a table."""
        declared = self._declared(table)
        return lambda columns, images: infer.unfit_rows(columns, images, schema, declared).refused

    def _unfit(self, images: MessageImages, schema: TableSchema, table: TableId) -> infer.UnfitRows:
        return infer.unfit_rows(Columns(images, schema.names), images, schema, self._declared(table))

    def needed(self, group: TableGroup, schema: TableSchema | None) -> TableSchema:
        """The schema that a group's rows need. Raises SchemaUnknown."""
        fields = group.fields
        if fields is None:
            types, images = self._declared(group.table), group.images
            if schema is not None:
                refused = list(self._unfit(images, schema, group.table).refused)
                images = images.part(~np.isin(np.arange(len(images)), refused)) if refused else images
            found = infer.infer_fields(images, schema)
            if schema is None and not found and (why := infer.no_columns_reason(images)):
                hint = "set unreadable-messages to skip or dead-letter to continue without such messages"
                raise SchemaUnknown(why, where=str(group.table), hint=hint)
            fields = tuple(Field(item.name, types.get(item.name, item.type)) for item in found)
            names = {item.name for item in fields}
            fields += tuple(Field(name, data_type) for name, data_type in types.items() if name not in names)
        return merge_fields(group.table, schema, fields, key_of(group, self.declared_key))

    def unread_keys(self, group: TableGroup, messages: Messages) -> list[str]:
        """A notice, only once, about a table without a key whose first message has a key that names no columns."""
        first = int(group.images.messages[0])
        if group.table in self._unkeyed or group.key is not None or not messages.key(first):
            return []
        self._unkeyed.add(group.table)
        return [
            f"{group.table}: the keys of its messages are not JSON objects and name no columns, so the table has "
            f"none; where it has one, say which columns are the key (primary-keys: {{{group.table}: [id]}})"
        ]

    def _declared(self, table: TableId) -> Mapping[str, DataType]:
        return next((types for pattern, types in self._columns if pattern.matches(table)), {})


def _declared(field: Field, declared: DataType | None, found: Format) -> Field:
    """The field with its declared type; the message still tells how its values are written."""
    if declared is None:
        return field
    if field.type.kind in BLOBS and declared.kind in BLOBS:
        field = replace(field, type=declared)
    elif not field.needs_description:
        field = found.natural(Column(field.name, declared))
    return replace(field, becomes=declared)


def fits(schema: TableSchema, fields: Iterable[Field]) -> bool:
    """Whether rows with these fields fit the table's present schema."""
    columns = {column.name: column.type for column in schema.columns}
    return all(
        item.name in columns and (not item.typed or widened(columns[item.name], item.column_type) == columns[item.name])
        for item in fields
    )


def merge_fields(
    table: TableId, schema: TableSchema | None, fields: tuple[Field, ...], key: tuple[str, ...] | None
) -> TableSchema:
    """The table's schema, extended for these fields; `key` is that of the messages, or the declared one.

    Messages never remove or narrow columns, because another partition, or an older message, may still need them.
    Columns outside the key are nullable, because older or newer messages may lack them.

    Raises SchemaUnknown when the key differs from the table's.
    """
    if schema is None:
        return _new(table, fields, key or ())
    check_key(table, schema, key)
    columns = list(schema.columns)
    index = 0
    for item in fields:
        found = next((number for number, column in enumerate(columns) if column.name == item.name), None)
        if found is None:
            columns.insert(index, Column(item.name, item.column_type, comment=item.comment))
        else:
            column = columns[found]
            wider = widened(column.type, item.column_type) if item.typed else column.type
            columns[found] = Column(column.name, wider, column.nullable, column.default, column.comment)
            index = found
        index += 1
    return TableSchema(tuple(columns), schema.primary_key, schema.comment)


def check_key(table: TableId, schema: TableSchema, key: tuple[str, ...] | None) -> None:
    """Raise SchemaUnknown when messages have other key columns than their table; None when they do not tell."""
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
    """The key columns of a group: the declared ones, or else those of its messages; None when there are neither."""
    key = declared(group.table)
    return group.key if key is None else key
