"""Debezium's options for the encoding of values, with the same names and choices as options of the sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DecimalMode = Literal["precise", "string", "double"]
UnsignedMode = Literal["long", "precise"]
BinaryMode = Literal["bytes", "base64", "hex"]
TimeMode = Literal["adaptive_time_microseconds", "connect"]


@dataclass(frozen=True, slots=True)
class EncodingModes:
    """Debezium's options, with its defaults.

    They are `decimal.handling.mode`, `bigint.unsigned.handling.mode`, `binary.handling.mode` and `time.precision.mode`.
    """

    decimal: DecimalMode = "precise"
    unsigned: UnsignedMode = "long"
    binary: BinaryMode = "bytes"
    time: TimeMode = "adaptive_time_microseconds"
