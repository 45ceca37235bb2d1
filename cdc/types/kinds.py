"""Families of kinds: the table that conversions, sinks and formats use. Frozen data.

| family | kinds | facts |
|---|---|---|
| INTEGERS | TINYINT .. BIGINT, signed and not | smallest and largest value (`RANGES`) |
| REALS | FLOAT, DOUBLE | |
| TEXTS | CHAR, VARCHAR, STRING | |
| BYTES | BINARY, VARBINARY, BYTES | |
| BLOBS | these and GEOMETRY | bytes in Arrow |
| TIMESTAMPS | TIMESTAMP, TIMESTAMP_LTZ | |
| TIMES | these and TIME | `length` is their fractional digits |
| PLAIN | integers, texts, DECIMAL, DATE, JSON | every system casts their values to the same text |
"""

from __future__ import annotations

from decimal import Context

from cdc.schema import Kind

RANGES = {
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63), 2**63 - 1),
    Kind.TINYINT_UNSIGNED: (0, 2**8 - 1),
    Kind.SMALLINT_UNSIGNED: (0, 2**16 - 1),
    Kind.INT_UNSIGNED: (0, 2**32 - 1),
    Kind.BIGINT_UNSIGNED: (0, 2**64 - 1),
}
INTEGERS = frozenset(RANGES)
REALS = frozenset({Kind.FLOAT, Kind.DOUBLE})
FLOAT_OVERFLOW = 2.0**128 - 2.0**103
"""The smallest number outside of FLOAT: smaller ones round to the largest FLOAT, as their shortest text does."""
EXACT = Context(prec=100)
"""Holds every DECIMAL with all its digits; Python's own context ends at 28."""

TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})
BINARIES = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES})
BLOBS = BINARIES | {Kind.GEOMETRY}
TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
TIMES = TIMESTAMPS | {Kind.TIME}
PLAIN = frozenset({*INTEGERS, *TEXTS, Kind.DECIMAL, Kind.DATE, Kind.JSON})


def digits(kind: Kind) -> int:
    """The most decimal digits of a value of an integer kind."""
    low, high = RANGES[kind]
    return len(str(max(high, -low)))
