"""The options for reading values that messages do not describe, and whether editing those changes the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.pattern import TablePattern
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.types.kinds import BINARIES, INTEGERS, TEXTS
from connectors.kafka.formats.modes import DecodingModes
from connectors.kafka.formats.plain import PlainFormat
from connectors.kafka.formats.widen import widened

_SAME_WRITTEN = TEXTS | BINARIES | {Kind.DECIMAL}
"""Kinds whose values are written in the same way whatever the length of the type."""


@dataclass(frozen=True)
class ReadingOptions:
    """The options. `types`: declared column types by table pattern; `modes`: None for rows of other programs."""

    types: Sequence[tuple[str, Mapping[str, DataType]]]
    modes: DecodingModes | None
    zone: str

    def differs(self, before: ReadingOptions, tables: Mapping[TableId, TableSchema]) -> bool:
        """Whether messages of these tables would give other values than `before`, in known columns."""
        return any(
            self._differs(before, table, column) for table, schema in tables.items() for column in schema.columns
        )

    def _differs(self, before: ReadingOptions, table: TableId, column: Column) -> bool:
        old, new = (each._declared(table, column.name) for each in (before, self))
        was, becomes = old or column.type, new or column.type
        if old != new and not _same_values(was, becomes, declared=new is not None):
            return True
        return before._written(column.name, was) != self._written(column.name, becomes)

    def _declared(self, table: TableId, column: str) -> DataType | None:
        return next((types for pattern, types in self.types if TablePattern(pattern).matches(table)), {}).get(column)

    def _written(self, name: str, kind: DataType) -> tuple[object, ...]:
        field = PlainFormat(self.zone, modes=self.modes).natural(Column(name, kind))
        moment = kind.kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
        return field.encoding, field.unit_us if moment else 0, field.zone if kind.kind is Kind.TIMESTAMP_LTZ else ""


def _same_values(old: DataType, new: DataType, *, declared: bool) -> bool:
    """Whether both types give the same values; a type that is no longer `declared` follows from the messages."""
    if old.kind in INTEGERS and new.kind in INTEGERS:
        return True
    same = old == new or (old.kind in _SAME_WRITTEN and widened(old, new) == new)
    return same and (declared or old.kind in TEXTS)
