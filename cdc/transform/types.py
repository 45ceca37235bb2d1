"""Types of expressions: column types, and those only in expressions (arrays, maps, rows, intervals, NULL)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc.schema import DataType, Kind
from cdc.types.kinds import BINARIES, INTEGERS, REALS, TEXTS, TIMESTAMPS
from cdc.types.kinds import digits as integer_digits

DIGITS = 38
"""Maximum digits of decimals in expressions; a value that does not fit fails instead of being rounded."""


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type."""

    element: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A map from keys to values."""

    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class RowType:
    """A row of several values."""

    fields: tuple[SqlType, ...]

    def __str__(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class IntervalType:
    """The type of INTERVAL literals."""

    def __str__(self) -> str:
        return "INTERVAL"


@dataclass(frozen=True, slots=True)
class NullType:
    """The type of a bare NULL; fits everywhere."""

    def __str__(self) -> str:
        return "NULL"


SqlType = DataType | Array | Map | RowType | IntervalType | NullType

BOOLEAN, INT, BIGINT = DataType(Kind.BOOLEAN), DataType(Kind.INT), DataType(Kind.BIGINT)
FLOAT, DOUBLE, STRING = DataType(Kind.FLOAT), DataType(Kind.DOUBLE), DataType(Kind.STRING)
BYTES, DATE, JSON = DataType(Kind.BYTES), DataType(Kind.DATE), DataType(Kind.JSON)
TIME, TIMESTAMP, LTZ = DataType(Kind.TIME, 6), DataType(Kind.TIMESTAMP, 6), DataType(Kind.TIMESTAMP_LTZ, 6)
NULL = NullType()

_SIGNED_BITS = {
    Kind.TINYINT: 8, Kind.TINYINT_UNSIGNED: 9, Kind.SMALLINT: 16, Kind.SMALLINT_UNSIGNED: 17, Kind.INT: 32,
    Kind.INT_UNSIGNED: 33, Kind.BIGINT: 64, Kind.BIGINT_UNSIGNED: 65,
}  # fmt: skip
MOMENTS = frozenset({Kind.DATE, *TIMESTAMPS})


def kind_of(kind: SqlType) -> Kind | None:
    """Return the kind of a column type, None for other types."""
    return kind.kind if isinstance(kind, DataType) else None


def is_integer(kind: SqlType) -> bool:
    """Whether the type is TINYINT to BIGINT, signed or unsigned."""
    return kind_of(kind) in INTEGERS


def is_exact(kind: SqlType) -> bool:
    """Whether the type is an integer, or a decimal that expressions can compute with."""
    return is_integer(kind) or (kind_of(kind) is Kind.DECIMAL and not is_wide(kind))


def is_number(kind: SqlType) -> bool:
    """Whether arithmetic accepts the type."""
    return is_exact(kind) or kind_of(kind) in REALS


def is_wide(kind: SqlType) -> bool:
    """Whether the type is a decimal with more digits than expressions compute with; its values are text."""
    return isinstance(kind, DataType) and kind.kind is Kind.DECIMAL and (kind.length or 10) > DIGITS


def is_text(kind: SqlType) -> bool:
    """Whether the type is CHAR, VARCHAR or STRING."""
    return kind_of(kind) in TEXTS


def is_shown(kind: SqlType) -> bool:
    """Whether values are converted to text without a CAST: all types but bytes and nested ones."""
    return isinstance(kind, DataType) and kind.kind not in (*BINARIES, Kind.GEOMETRY, Kind.VECTOR)


def decimal(precision: int, scale: int) -> DataType:
    """Return a decimal type."""
    return DataType(Kind.DECIMAL, precision, scale)


def digits(kind: SqlType) -> tuple[int, int]:
    """Return precision and scale of an exact number type."""
    assert isinstance(kind, DataType)
    if kind.kind is Kind.DECIMAL:
        return kind.length or 10, kind.scale or 0
    return integer_digits(kind.kind), 0


def common_integer(kinds: Iterable[SqlType]) -> DataType:
    """Return the smallest signed type for all, at least INT for arithmetic; DECIMAL(20, 0) beyond BIGINT."""
    bits = max(_SIGNED_BITS[kind.kind] for kind in kinds if isinstance(kind, DataType))
    return INT if bits <= 32 else BIGINT if bits <= 64 else decimal(20, 0)


def common_real(kinds: Iterable[SqlType]) -> DataType:
    """Return FLOAT where all are FLOAT or integers, else DOUBLE."""
    return FLOAT if all(kind_of(kind) is Kind.FLOAT or is_integer(kind) for kind in kinds) else DOUBLE


def common_number(kinds: Sequence[SqlType]) -> DataType | None:
    """Return the type for the values of all: the same, a wider integer, decimal, or DOUBLE; None beyond 38 digits."""
    if len(set(kinds)) == 1 and isinstance(kinds[0], DataType):
        return kinds[0]
    if any(kind_of(kind) in REALS for kind in kinds):
        return DOUBLE
    if all(is_integer(kind) for kind in kinds):
        signed = [kind for kind in kinds if isinstance(kind, DataType)]
        return max(signed, key=lambda kind: _SIGNED_BITS[kind.kind]) if _same_sign(signed) else common_integer(kinds)
    sizes = [digits(kind) for kind in kinds]
    scale = max(size[1] for size in sizes)
    precision = max(size[0] - size[1] for size in sizes) + scale
    return decimal(precision, scale) if precision <= DIGITS else None


def _same_sign(kinds: list[DataType]) -> bool:
    return len({kind.kind.value.endswith("UNSIGNED") for kind in kinds}) == 1


def common_type(kinds: Sequence[SqlType]) -> SqlType | None:
    """Return the common type of alternatives (CASE, COALESCE, an array's elements); None when there is none."""
    known = [kind for kind in kinds if not isinstance(kind, NullType)]
    if not known:
        return NULL
    if len(set(known)) == 1:
        return known[0]
    if all(is_number(kind) for kind in known):
        return common_number(known)
    found = {kind_of(kind) for kind in known}
    if found <= TEXTS:
        lengths = [kind.length for kind in known if isinstance(kind, DataType) and kind.kind is not Kind.STRING]
        unbounded = Kind.STRING in found or any(length is None for length in lengths)
        return STRING if unbounded else DataType(Kind.VARCHAR, max(length for length in lengths if length is not None))
    if found <= BINARIES:
        return BYTES
    if all(isinstance(kind, Array) for kind in known):
        element = common_type([kind.element for kind in known if isinstance(kind, Array)])
        return None if element is None else Array(element)
    if found <= MOMENTS or found == {Kind.TIME}:
        fraction = max((kind.length or 0) for kind in known if isinstance(kind, DataType))
        top = next(kind for kind in (Kind.TIME, Kind.TIMESTAMP_LTZ, Kind.TIMESTAMP) if kind in found)
        return DataType(top, fraction)
    return None
