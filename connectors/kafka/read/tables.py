"""Tables as messages and the pipeline file describe them: which are taken, their keys, and whether rows fit."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.pattern import TablePattern
from cdc.schema import Column, TableId, TableSchema
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Group, Messages
from connectors.kafka.read import schemas
from connectors.kafka.source_options import KafkaSourceOptions


class Tables:
    """Pure, but for what it remembers of patterns. Every process makes its own."""

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._wanted = options.wanted
        self._keys = [(TablePattern(pattern), tuple(key)) for pattern, key in options.primary_keys.items()]
        self._zone = options.zone
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

    def natural(self, column: Column) -> Field:
        """How values are written that the messages do not describe."""
        return Field(column.name, column.type, zone=self._zone)

    def misfit(self, group: Group, known: Mapping[TableId, TableSchema]) -> int | None:
        """The number of the first message whose rows cannot be rows of the table as it is known; None when all can."""
        if not self.takes(group.table):
            return None
        schema = known.get(group.table)
        first = int(group.images.messages[0])
        if schema is None:
            return first
        if group.fields is not None:
            key = schemas.key_of(group, self.declared_key)
            same_key = key is None or key == schema.primary_key
            return None if same_key and schemas.fits(schema, group.fields) else first
        return None

    def needed(self, group: Group, schema: TableSchema | None, messages: Messages) -> TableSchema:
        """The schema that a group's rows need. Raises SchemaUnknown."""
        return schemas.merged(group.table, schema, group.fields or (), schemas.key_of(group, self.declared_key))
