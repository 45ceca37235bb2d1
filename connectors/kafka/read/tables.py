"""Tables as messages and the pipeline file describe them: which are taken, their keys, and whether rows fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.pattern import TablePattern
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.types.kinds import BLOBS
from connectors.kafka.formats import infer
from connectors.kafka.formats.blocks import Columns, Judge
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Format, MessageImages, Messages, TableGroup
from connectors.kafka.read import schemas
from connectors.kafka.read.history import HistoryState
from connectors.kafka.source_options import KafkaSourceOptions


class TopicTables:
    """Pure, but for what it remembers of patterns. Every process makes its own."""

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
        """Raises UnsupportedChange when rows of two databases would be rows of one table: they have the same schema
        and name there."""
        if group.database is None:
            return
        known = self._databases.setdefault(group.table, group.database)
        if known != group.database:
            raise UnsupportedChange(
                f"{group.table} is a table of the databases {known} and {group.database}",
                hint="read the topics of each database with a pipeline of its own",
            )

    def declared_key(self, table: TableId) -> tuple[str, ...] | None:
        """The key columns that the pipeline file gives a table."""
        return next((key for pattern, key in self._keys if pattern.matches(table)), None)

    def described(self, group: TableGroup, found: Format) -> TableGroup:
        """The group with the types that the pipeline file gives its columns."""
        types = self._declared(group.table)
        if not types or group.fields is None:
            return group
        return replace(group, fields=tuple(_declared(item, types.get(item.name), found) for item in group.fields))

    def refusal_of(self, group: TableGroup, known: HistoryState) -> SchemaUnknown | None:
        """Why no row of a group can be a row of its table, whatever is changed; None when one may be."""
        schema = known.schemas.get(group.table)
        try:
            if schema is None:
                self.needed(group, None)
            else:
                schemas.check_key(group.table, schema, schemas.key_of(group, self.declared_key))
        except SchemaUnknown as error:
            return error
        return None

    def first_unfit(self, group: TableGroup, known: HistoryState, topic: str) -> int | None:
        """The number of the first message whose rows need another schema of the table; None when there is none.

        A topic that is not known to have rows of the table needs to be known as little as one that has other rows.
        """
        schema = known.schemas.get(group.table)
        first = int(group.images.messages[0])
        if schema is None or topic not in known.topics.get(group.table, ()):
            return first
        if group.fields is not None:
            return None if schemas.fits(schema, group.fields) else first
        needs = self._judged(group.images, schema, group.table).needs
        return int(group.images.messages[np.argmax(needs)]) if needs.any() else None

    def judge(self, table: TableId, schema: TableSchema) -> Judge:
        """Says why rows of messages that do not describe their columns cannot be rows of a table."""
        declared = self._declared(table)
        return lambda columns, images: infer.judge(columns, images, schema, declared).hopeless

    def _judged(self, images: MessageImages, schema: TableSchema, table: TableId) -> infer.Judged:
        return infer.judge(Columns(images, schema.names), images, schema, self._declared(table))

    def needed(self, group: TableGroup, schema: TableSchema | None) -> TableSchema:
        """The schema that a group's rows need. Raises SchemaUnknown."""
        fields = group.fields
        if fields is None:
            types, images = self._declared(group.table), group.images
            if schema is not None:
                hopeless = list(self._judged(images, schema, group.table).hopeless)
                images = images.part(~np.isin(np.arange(len(images)), hopeless)) if hopeless else images
            found = infer.infer_fields(images, schema)
            if schema is None and not found and Columns(images, ()).faults.all():
                hint = "set unreadable-messages to skip or dead-letter to go on without such messages"
                raise SchemaUnknown("a row that is no JSON object", where=str(group.table), hint=hint)
            fields = tuple(Field(item.name, types.get(item.name, item.type)) for item in found)
            names = {item.name for item in fields}
            fields += tuple(Field(name, data_type) for name, data_type in types.items() if name not in names)
        return schemas.merge_fields(group.table, schema, fields, schemas.key_of(group, self.declared_key))

    def unread_keys(self, group: TableGroup, messages: Messages) -> list[str]:
        """A notice, once, of a table without a key whose first message has one that names no columns."""
        first = int(group.images.messages[0])
        if group.table in self._unkeyed or group.key is not None or not messages.key(first):
            return []
        self._unkeyed.add(group.table)
        return [
            f"{group.table}: the keys of its messages are no JSON objects and name no columns, so the table has "
            f"none; where it has one, say which columns are the key (primary-keys: {{{group.table}: [id]}})"
        ]

    def _declared(self, table: TableId) -> Mapping[str, DataType]:
        return next((types for pattern, types in self._columns if pattern.matches(table)), {})


def _declared(field: Field, declared: DataType | None, found: Format) -> Field:
    """The field with what the pipeline file makes of it: the message says how its values are written."""
    if declared is None:
        return field
    if field.type.kind in BLOBS and declared.kind in BLOBS:
        return replace(field, type=declared)
    if field.says_how_written:
        return replace(field, becomes=declared)
    return found.natural(Column(field.name, declared))
