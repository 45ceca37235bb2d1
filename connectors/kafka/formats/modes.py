"""Debezium's settings for writing decimals, times and bytes, for messages without a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cdc.schema import Column, Kind
from cdc.types.kinds import BINARIES
from connectors.kafka.formats.fields import Encoding, Field

DecimalMode = Literal["precise", "string", "double"]
TimeMode = Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"]
UnsignedMode = Literal["long", "precise"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]

_MILLI, _MICRO = 1000, 1


@dataclass(frozen=True, slots=True)
class DecodingModes:
    """The connector's settings, under their names there.

    They are decimal.handling.mode, time.precision.mode, binary.handling.mode and bigint.unsigned.handling.mode.
    """

    decimal: DecimalMode = "precise"
    time: TimeMode = "adaptive_time_microseconds"
    binary: BinaryMode = "bytes"
    zone: str = "UTC"
    unsigned: UnsignedMode = "long"

    def natural(self, column: Column) -> Field:
        """The field of a column, with the way its values are written."""
        kind = column.type.kind
        encoding = Encoding.NATURAL
        if (kind is Kind.DECIMAL and self.decimal == "precise") or (
            kind is Kind.BIGINT_UNSIGNED and self.unsigned == "precise"
        ):
            encoding = Encoding.DECIMAL_BYTES
        elif kind in BINARIES and self.binary == "hex":
            encoding = Encoding.HEX
        elif kind in BINARIES and self.binary == "base64-url-safe":
            encoding = Encoding.BASE64_URL
        elif kind is Kind.GEOMETRY:
            encoding = Encoding.GEOMETRY
        elif kind in (Kind.TIME, Kind.TIMESTAMP) and self.time == "nanoseconds":
            encoding = Encoding.NANOS
        return Field(
            column.name, column.type, encoding, unit_us=self._unit(column), scale=column.type.scale or 0, zone=self.zone
        )

    def _unit(self, column: Column) -> int:
        digits = column.type.length or 0
        if column.type.kind is Kind.TIMESTAMP:
            return _MICRO if self.time == "microseconds" or (digits > 3 and self.time != "connect") else _MILLI
        if column.type.kind is Kind.TIME:
            return _MILLI if self.time == "connect" or (self.time == "adaptive" and digits <= 3) else _MICRO
        return _MICRO
