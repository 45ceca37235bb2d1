"""The narrowest common type of two types. Pure and commutative.

| types | together |
|---|---|
| the same | the same |
| integers | the narrowest integer that holds both; DECIMAL(20, 0) where only that does |
| integer and DECIMAL(p, s) | DECIMAL with room for the integer's digits |
| DECIMAL and DECIMAL | the more digits before and after the point; STRING beyond 65 digits |
| integer of 16 bits or fewer and FLOAT | FLOAT |
| other integer and FLOAT, integer and DOUBLE, FLOAT and DOUBLE | DOUBLE |
| DECIMAL and FLOAT or DOUBLE | STRING |
| CHAR, VARCHAR | VARCHAR of the longer (CHAR where both are) |
| BINARY, VARBINARY | VARBINARY of the longer |
| text and STRING, bytes and BYTES | STRING, BYTES |
| TIME, TIMESTAMP, TIMESTAMP_LTZ with other digits | the more digits |
| TIMESTAMP and TIMESTAMP_LTZ | TIMESTAMP_LTZ |
| DATE and TIMESTAMP or TIMESTAMP_LTZ | that, with 6 digits |
| VECTOR of other dimensions | VECTOR |
| anything else | STRING |
"""

from __future__ import annotations

from cdc.schema import DataType, Kind
from cdc.types.kinds import BINARIES, BLOBS, RANGES, REALS, TEXTS, TIMESTAMPS, digits

STRING = DataType(Kind.STRING)
_MOST_DIGITS = 65
_SMALL = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED})


def common_type(left: DataType, right: DataType) -> DataType:
    """The narrowest type that holds the values of both types."""
    if left == right:
        return left
    kinds = {left.kind, right.kind}
    if kinds <= RANGES.keys():
        return _integer(left.kind, right.kind)
    if kinds <= {*RANGES, Kind.DECIMAL}:
        return _decimal(_as_decimal(left), _as_decimal(right))
    if kinds <= {*RANGES, *REALS}:
        small = Kind.DOUBLE not in kinds and kinds <= {*_SMALL, Kind.FLOAT}
        return DataType(Kind.FLOAT if small else Kind.DOUBLE)
    if kinds <= TEXTS:
        return _longer(left, right, Kind.CHAR, Kind.VARCHAR, Kind.STRING)
    if kinds <= BINARIES:
        return _longer(left, right, Kind.VARBINARY, Kind.VARBINARY, Kind.BYTES)
    if kinds <= BLOBS:
        return DataType(Kind.BYTES)
    return _temporal(left, right)


def _integer(left: Kind, right: Kind) -> DataType:
    low = min(RANGES[left][0], RANGES[right][0])
    high = max(RANGES[left][1], RANGES[right][1])
    holding = [kind for kind, (least, most) in RANGES.items() if least <= low and high <= most]
    if not holding:
        return DataType(Kind.DECIMAL, 20, 0)
    return DataType(min(holding, key=lambda kind: RANGES[kind][1] - RANGES[kind][0]))


def _as_decimal(data_type: DataType) -> DataType:
    if data_type.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, data_type.length or 10, data_type.scale or 0)
    return DataType(Kind.DECIMAL, digits(data_type.kind), 0)


def _decimal(left: DataType, right: DataType) -> DataType:
    scale = max(left.scale or 0, right.scale or 0)
    integer_digits = max((each.length or 10) - (each.scale or 0) for each in (left, right))
    return DataType(Kind.DECIMAL, integer_digits + scale, scale) if integer_digits + scale <= _MOST_DIGITS else STRING


def _longer(left: DataType, right: DataType, fixed: Kind, varying: Kind, unlimited: Kind) -> DataType:
    if unlimited in (left.kind, right.kind) or left.length is None or right.length is None:
        return DataType(unlimited)
    kind = fixed if left.kind is right.kind is fixed else varying
    return DataType(kind, max(left.length, right.length))


def _temporal(left: DataType, right: DataType) -> DataType:
    kinds = {left.kind, right.kind}
    moment = Kind.TIMESTAMP_LTZ if Kind.TIMESTAMP_LTZ in kinds else Kind.TIMESTAMP
    longest = max(left.length or 0, right.length or 0)
    if kinds == {Kind.TIME}:
        return DataType(Kind.TIME, longest)
    if kinds <= TIMESTAMPS:
        return DataType(moment, longest)
    if Kind.DATE in kinds and kinds <= {Kind.DATE, *TIMESTAMPS}:
        return DataType(moment, 6)
    return DataType(Kind.VECTOR) if kinds == {Kind.VECTOR} else STRING
