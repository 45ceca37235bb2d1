"""Columns as messages describe them (type and encoding), and the conversion of their values to Arrow arrays."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from enum import Enum, auto
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.schema import DataType, Kind
from cdc.types.kinds import BINARIES, BLOBS, INTEGERS, REALS, TEXTS, TIMESTAMPS
from connectors.kafka.formats import convert
from connectors.kafka.formats.convert import BadValue
from connectors.kafka.formats.scan import Cells
from connectors.kafka.formats.widen import adapted, become, fitting
from connectors.kafka.kernels import ABSENT, ESCAPED, INTEGER, NULL, STRING, moments

Count = Callable[[str, int], None]
"""Takes the name of a change or loss in values of a column, and the number of those values."""


class Encoding(Enum):
    """The encoding of a column's values in JSON."""

    NATURAL = auto()
    """Numbers as numbers or text, text as text, bytes as base64, times as ISO text or as counts of `unit_us`."""
    DECIMAL_BYTES = auto()
    DECIMAL_STRUCT = auto()
    """Debezium's {"scale": number, "value": base64}."""
    HEX = auto()
    BASE64_URL = auto()
    """Base64 with `-` and `_` instead of `+` and `/`."""
    LATIN1 = auto()
    """Bytes as the characters with the same numbers."""
    BITS_LITTLE = auto()
    """Debezium's Bits: base64, lowest byte first."""
    BITS_NUMBER = auto()
    ENUM_NUMBER = auto()
    SET_NUMBER = auto()
    SET_LIST = auto()
    GEOMETRY = auto()
    """Debezium's {"wkb": base64, "srid": number or null}."""
    VECTOR = auto()
    NANOS = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A column of messages. `unit_us` is the unit, in microseconds, of times that are written as counts.

    `typed` is false for a column whose type in the message is unknown: its values then have the table's type, or are
    text if the table has none.
    """

    name: str
    type: DataType
    encoding: Encoding = Encoding.NATURAL
    unit_us: int = 1
    labels: tuple[str, ...] = ()
    optional: bool = True
    comment: str = ""
    scale: int = 0
    """The digits after the point in numbers of DECIMAL_BYTES; below zero for zeros that are not written."""
    zone: str = "UTC"
    """The time zone of instants that are written without one."""
    typed: bool = True
    becomes: DataType | None = None
    """The type declared in the pipeline file; `type` and `encoding` still tell how the message writes the values."""

    @property
    def column_type(self) -> DataType:
        """The type whose values the table's column has to hold."""
        return self.becomes or self.type

    @property
    def needs_description(self) -> bool:
        """Whether values can only be read with the message's own description, not from their JSON alone."""
        return self.encoding is not Encoding.NATURAL or self.type.kind in _NOT_PLAIN


_MOMENTS = frozenset({Kind.DATE, Kind.TIME, *TIMESTAMPS})
_NOT_PLAIN = frozenset({*_MOMENTS, *BINARIES, Kind.BIGINT_UNSIGNED})
_NUMBERS = frozenset({*REALS, Kind.DECIMAL})
_TEXTS = frozenset({*TEXTS, Kind.JSON})
_REPLACED = "�".encode()


def decoded(field: Field, cells: Cells, target: DataType, count: Count) -> pa.Array:
    """The values of a column as `target`: the field's `column_type`, or a wider type.

    Raises BadValue for a value that `target` does not hold: sinks would round, cut or refuse it, each in its own way.
    """
    if field.becomes is not None and field.type.kind in _MOMENTS and not (cells.kinds == INTEGER).any():
        field = replace(field, type=field.becomes)  # all formats write it alike as text
    special = _SPECIAL.get(field.encoding)
    values = _natural(field, cells, count) if special is None else special(field, cells)
    _check_available(values)
    if field.type.kind in _FINE and (lost := convert.digits_beyond_micros(cells, field.encoding is Encoding.NANOS)):
        count("digits-beyond-microseconds", lost)
    data_type = field.type
    if field.becomes is not None:
        values, data_type = become(values, data_type, field.becomes), field.becomes
    return fitting(adapted(values, data_type, target), target, declared=field.becomes is not None)


_UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for an unchanged value that the server did not send with the change."""
_UNAVAILABLES = (_UNAVAILABLE, f'["{_UNAVAILABLE}"]', f'{{"{_UNAVAILABLE}":"{_UNAVAILABLE}"}}')


def _check_available(values: pa.Array) -> None:
    """Raise BadValue for Debezium's placeholder, which is no value of the row."""
    if pa.types.is_binary(values.type):
        found = pc.equal(values, pa.scalar(_UNAVAILABLE.encode()))
    elif pa.types.is_string(values.type):
        found = pc.is_in(values, pa.array(_UNAVAILABLES))
    else:
        return
    if pc.any(found).as_py():
        row = pc.index(found, True).as_py()
        raise BadValue(row, "is Debezium's placeholder of a value that the server did not send (REPLICA IDENTITY FULL)")


_FINE = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})


def _natural(field: Field, cells: Cells, count: Count) -> pa.Array:
    kind, arrow = field.type.kind, arrow_type(field.type)
    if kind in INTEGERS:
        return _unsigned(cells) if kind is Kind.BIGINT_UNSIGNED else convert.whole_numbers(cells, arrow)
    if kind in _NUMBERS:
        values = convert.numbers(cells, arrow)
        if kind in REALS and (lost := convert.rounded_numbers(cells, arrow)):
            count(f"digits-beyond-a-{kind.name.lower()}", lost)
        return values
    if kind in _TEXTS:
        return _text(cells, count)
    if kind in BLOBS:
        return _bytes(field, cells)
    if kind is Kind.BOOLEAN:
        return convert.booleans(cells)
    if kind is Kind.VECTOR:
        return _vector(field, cells)
    return _moment(field, cells, count)


def _text(cells: Cells, count: Count) -> pa.Array:
    found = convert.text(cells)
    data = found.buffers()[2]
    if data is not None and _REPLACED in memoryview(data).tobytes():
        lost = pc.sum(pc.match_substring(found, "�")).as_py()
        if lost:
            count("replacement-characters", lost)
    return found


def _bytes(field: Field, cells: Cells) -> pa.Array:
    """The bytes written as base64, or as the number that the bits of a BINARY(n) make up."""
    numbers = cells.kinds == INTEGER
    if not numbers.any():
        return _padded(field, convert.from_base64(cells))
    if field.type.kind is Kind.BINARY and (numbers | convert.nulls(cells)).all():
        return _bits_number(field, cells)
    raise BadValue(int(np.argmax(numbers)), "is a number, not bytes as base64")


def _unsigned(cells: Cells) -> pa.Array:
    """Unsigned numbers; those from 2^63 on may be written as they are, or as negative 64-bit numbers."""
    texts = convert.text(cells)
    if pc.any(pc.starts_with(texts, "-")).as_py():
        signed = convert.integers(cells)
        return pa.array(signed.fill_null(0).to_numpy().view(np.uint64), mask=convert.nulls(cells))
    return convert.cast(texts, pa.uint64(), "is not a whole number of 64 bits")


def _moment(field: Field, cells: Cells, count: Count) -> pa.Array:
    """The values of DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ, written as counts or as text."""
    kind, arrow = field.type.kind, arrow_type(field.type)
    counted = cells.kinds == INTEGER
    empty = convert.nulls(cells)
    if (counted | empty).all():
        numbers = convert.integers(cells)
        if kind is Kind.DATE:
            return convert.cast(numbers, pa.int32(), "is not a day").cast(arrow)
        return convert.from_micros(arrow, convert.micros(numbers, field.unit_us), empty)
    written = (cells.kinds == STRING) | (cells.kinds == ESCAPED)
    if not (written | empty).all():
        raise BadValue(int(np.argmin(written | empty)), f"is neither text nor a count, as others of {field.name} are")
    if kind is Kind.TIME:
        return convert.parsed_spans(cells)
    values, empty, verdicts = convert.parsed_moments(cells)
    impossible = verdicts == moments.IMPOSSIBLE
    if impossible.any():
        count("invalid-date-to-null", int(impossible.sum()))
        empty = empty | impossible
    if kind is Kind.DATE:
        return become(convert.from_micros(pa.timestamp("us"), values, empty), field.type, field.type)
    if kind is Kind.TIMESTAMP_LTZ and field.zone != "UTC":
        zoned = verdicts == moments.ZONED  # these texts have a time zone
        values = np.where(zoned, values, _instants(values, empty | zoned, field.zone))
    return convert.from_micros(arrow, values, empty)


def _instants(clocks: np.ndarray, empty: np.ndarray, zone: str) -> np.ndarray:
    """The instants, in microseconds, of these local times in a zone; the earlier one of two."""
    shown = convert.from_micros(pa.timestamp("us"), clocks, empty)
    instants = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="latest")
    skipped = pc.not_equal(pc.local_timestamp(instants), shown).fill_null(False)
    if pc.any(skipped).as_py():
        raise BadValue(pc.index(skipped, True).as_py(), f"is in an hour that the clocks of {zone} skip")
    return np.asarray(instants.cast(pa.int64()).fill_null(0).to_numpy())


def _nanos(field: Field, cells: Cells) -> pa.Array:
    return convert.from_micros(arrow_type(field.type), convert.nanos(convert.integers(cells)), convert.nulls(cells))


def _padded(field: Field, values: pa.Array) -> pa.Array:
    """Values of BINARY(n) padded to n bytes, since trailing zeros may have been omitted."""
    width = field.type.length or 1
    if field.type.kind is not Kind.BINARY or not pc.any(pc.less(pc.binary_length(values), width)).as_py():
        return values
    return convert.each(values, lambda item: item.ljust(width, b"\0"), pa.binary(), "")


def _decimal_bytes(field: Field, cells: Cells) -> pa.Array:
    if field.type.kind is Kind.STRING:
        return convert.decimal_bytes(cells, MOST_SCALE, field.scale)
    if field.type.kind is not Kind.DECIMAL:
        return convert.cast(convert.decimal_bytes(cells, 20, 0).cast(pa.string()), arrow_type(field.type))
    return convert.decimal_bytes(cells, field.type.length or 10, field.scale)


def _decimal_struct(field: Field, cells: Cells) -> pa.Array:
    return convert.each(convert.text(cells), _digits, pa.string(), "is not a decimal with a scale")


def _digits(item: str) -> str:
    match json.loads(item):
        case {"scale": int(scale), "value": str(value)} if abs(scale) <= MOST_SCALE and len(value) <= MOST_SCALE:
            number = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
            return f"{Decimal(number).scaleb(-scale, _EXACT):f}"
    raise ValueError(item)


MOST_SCALE = 20_000
_EXACT = Context(prec=MOST_SCALE * 3)


def _hex(field: Field, cells: Cells) -> pa.Array:
    return _padded(field, convert.from_hex(cells))


def _base64_url(field: Field, cells: Cells) -> pa.Array:
    return _padded(field, convert.from_base64_url(cells))


def _latin1(field: Field, cells: Cells) -> pa.Array:
    return _padded(field, convert.from_latin1(cells))


def _bits_little(field: Field, cells: Cells) -> pa.Array:
    """The bits of Debezium's Bits, with the width of BINARY(n); PostgreSQL's `bit varying` has none."""
    width = field.type.length or 0
    return convert.each(
        convert.from_base64(cells),
        lambda item: int.from_bytes(item, "little").to_bytes(width or len(item), "big"),
        pa.binary(),
        "has more bits than its type",
    )


def _bits_number(field: Field, cells: Cells) -> pa.Array:
    if field.type.kind is Kind.BOOLEAN:
        return convert.booleans(cells)
    width = field.type.length or 1
    return convert.each(
        convert.text(cells),
        lambda item: int(item).to_bytes(width, "big"),
        pa.binary(),
        "is not a number of that many bits",
    )


def _enum_number(field: Field, cells: Cells) -> pa.Array:
    """The members with these numbers from 1 on; 0 is the empty text of an invalid value. Other text is the member."""
    if field.becomes and not field.labels:
        return convert.text(cells)
    names = ("", *field.labels)
    return convert.each(
        convert.text(cells), lambda item: names[int(item)] if item.isdigit() else item, pa.string(), _NO_MEMBER
    )


_NO_MEMBER = (
    "is not a member that its type names; where that names none, declare the column (`columns`) to take its number"
)


def _set_number(field: Field, cells: Cells) -> pa.Array:
    if field.becomes and not field.labels:
        return convert.text(cells)

    def members(item: str) -> str:
        if not item.isdigit():
            return item
        mask = int(item)
        if mask >> len(field.labels):
            raise ValueError(item)
        return ",".join(label for bit, label in enumerate(field.labels) if mask >> bit & 1)

    return convert.each(convert.text(cells), members, pa.string(), _NO_MEMBER)


def _set_list(field: Field, cells: Cells) -> pa.Array:
    return convert.each(convert.text(cells), lambda item: ",".join(json.loads(item)), pa.string(), "is not a list")


def _geometry(field: Field, cells: Cells) -> pa.Array:
    """The shapes in MySQL's form: the SRID in four bytes, lowest first, then the WKB."""
    return convert.each(convert.text(cells), _shape, pa.binary(), "is not a geometry")


def _shape(item: str) -> bytes | None:
    match json.loads(item):
        case {"wkb": None}:
            return None
        case {"wkb": str(wkb), "srid": int(srid)}:
            return srid.to_bytes(4, "little") + _without_srid(base64.b64decode(wkb, validate=True))
        case {"wkb": str(wkb), **more} if more.get("srid") is None:
            return bytes(4) + base64.b64decode(wkb, validate=True)
    raise ValueError(item)


_SRID = 0x20000000


def _without_srid(wkb: bytes) -> bytes:
    """The WKB without the SRID that PostGIS puts into it, which a flag in the type marks."""
    order: Literal["little", "big"] = "little" if wkb[:1] == b"\1" else "big"
    kind = int.from_bytes(wkb[1:5], order)
    return wkb[:1] + (kind ^ _SRID).to_bytes(4, order) + wkb[9:] if kind & _SRID else wkb


def _vector(field: Field, cells: Cells) -> pa.Array:
    texts = pc.utf8_trim(convert.text(cells), "[] ")
    parts = pc.split_pattern(texts, ",")
    try:
        flat = convert.cast(pc.utf8_trim_whitespace(parts.flatten()), pa.float32(), "is not a number")
    except BadValue as error:  # its `row` counts single numbers, not vectors
        raise BadValue(int(np.searchsorted(parts.offsets.to_numpy(), error.row, "right")) - 1, str(error)) from error
    offsets = pa.array(parts.offsets.to_numpy(), pa.int32(), mask=np.append(convert.nulls(cells), False))
    found = pa.ListArray.from_arrays(offsets, flat)
    return found.cast(arrow_type(field.type))


def present(cells: Cells) -> Any:
    """The rows (bool[n]) that have the member, NULL or not."""
    return cells.kinds != ABSENT


def has_values(cells: Cells) -> bool:
    """Whether some row has a value that is not NULL."""
    return bool(np.any((cells.kinds != ABSENT) & (cells.kinds != NULL)))


_SPECIAL: dict[Encoding, Callable[[Field, Cells], pa.Array]] = {
    Encoding.DECIMAL_BYTES: _decimal_bytes,
    Encoding.DECIMAL_STRUCT: _decimal_struct,
    Encoding.HEX: _hex,
    Encoding.BASE64_URL: _base64_url,
    Encoding.LATIN1: _latin1,
    Encoding.BITS_LITTLE: _bits_little,
    Encoding.BITS_NUMBER: _bits_number,
    Encoding.ENUM_NUMBER: _enum_number,
    Encoding.SET_NUMBER: _set_number,
    Encoding.SET_LIST: _set_list,
    Encoding.GEOMETRY: _geometry,
    Encoding.VECTOR: _vector,
    Encoding.NANOS: _nanos,
}
