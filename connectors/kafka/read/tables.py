"""Tables as messages and the pipeline file describe them: which are taken, their keys, and whether rows fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc.pattern import TablePattern
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.kafka.formats import infer
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Format, Group
from connectors.kafka.read import schemas
from connectors.kafka.read.history import Known
from connectors.kafka.source_options import KafkaSourceOptions


class Tables:
    """Pure, but for what it remembers of patterns. Every process makes its own."""

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._wanted = options.captures()
        self._keys = [(TablePattern(pattern), tuple(key)) for pattern, key in options.primary_keys.items()]
        self._columns = [(TablePattern(pattern), options.types_of(pattern)) for pattern in options.columns]
        self._taken: dict[TableId, bool] = {}

    def takes(self, table: TableId) -> bool:
        """Whether a table is wanted."""
        found = self._taken.get(table)
        if found is None:
            found = self._taken[table] = self._wanted is None or self._wanted.matches(table)
        return found

    def declared_key(self, table: TableId) -> tuple[str, ...] | None:
        """The key columns that the pipeline file gives a table."""
        return next((key for pattern, key in self._keys if pattern.matches(table)), None)

    def described(self, group: Group, found: Format) -> Group:
        """The group with the types that the pipeline file gives its columns."""
        types = self._declared(group.table)
        if not types or group.fields is None:
            return group
        fields = tuple(
            found.natural(Column(item.name, types[item.name])) if item.name in types else item for item in group.fields
        )
        return replace(group, fields=fields)

    def first_unfit(self, group: Group, known: Known, topic: str) -> int | None:
        """The number of the first message whose rows cannot be rows of the table as it is known; None when all can.

        A topic that is not known to have rows of the table fits as little as one that has other rows.
        """
        if not self.takes(group.table):
            return None
        schema = known.schemas.get(group.table)
        first = int(group.images.messages[0])
        if schema is None or topic not in known.topics.get(group.table, ()):
            return first
        key = schemas.key_of(group, self.declared_key)
        if key is not None and key != schema.primary_key:
            return first
        if group.fields is not None:
            return None if schemas.fits(schema, group.fields) else first
        image = infer.first_unfit(group.images, schema, self._declared(group.table))
        return None if image is None else int(group.images.messages[image])

    def needed(self, group: Group, schema: TableSchema | None) -> TableSchema:
        """The schema that a group's rows need. Raises SchemaUnknown."""
        fields = group.fields
        if fields is None:
            types = self._declared(group.table)
            found = infer.inferred(group.images, schema)
            fields = tuple(Field(item.name, types.get(item.name, item.type)) for item in found)
            names = {item.name for item in fields}
            fields += tuple(Field(name, data_type) for name, data_type in types.items() if name not in names)
        return schemas.merged(group.table, schema, fields, schemas.key_of(group, self.declared_key))

    def _declared(self, table: TableId) -> Mapping[str, DataType]:
        return next((types for pattern, types in self._columns if pattern.matches(table)), {})
