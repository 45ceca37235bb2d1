"""TABLE_MAP events: the table of the following rows, and the layout of its columns in a row image.

Format: MySQL `libs/mysql/binlog/event/rows_event.h` (Table_map_event) and `sql/log_event.cc`
(`Table_map_log_event::init_metadata_fields`); MariaDB writes the same, without the fields it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc.errors import CorruptLog
from cdc.schema import TableId

DECIMAL_OLD: Final = 0
TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
TIMESTAMP_OLD: Final = 7
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
TIME_OLD: Final = 11
DATETIME_OLD: Final = 12
YEAR: Final = 13
NEWDATE: Final = 14
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
TYPED_ARRAY: Final = 20
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
VECTOR: Final = 242
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
TINY_BLOB: Final = 249
MEDIUM_BLOB: Final = 250
LONG_BLOB: Final = 251
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

_ONE_BYTE: Final = frozenset(
    {
        FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, JSON, GEOMETRY, VECTOR,
        BLOB_COMPRESSED,
    }
)  # fmt: skip
_TWO_BYTES: Final = frozenset({VARCHAR, VAR_STRING, VARCHAR_COMPRESSED, BIT, NEWDECIMAL, STRING, ENUM, SET})
_SIGNED: Final = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE})
_NUMERIC: Final = _SIGNED | {YEAR}
_TEXT: Final = frozenset({STRING, VAR_STRING, VARCHAR, BLOB, BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR})

_BINARY: Final = 63
"""Collation id of binary strings."""

_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _COLUMN_NAME = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class TableMapEvent:
    """One TABLE_MAP event, without its table id (that changes while the rest stays).

    Attributes:
        table: database and table name.
        types: one type code per column; ENUM and SET already distinguished from STRING.
        metadata: one number per column, 0 for types without. STRING: maximum length in bytes. ENUM, SET: bytes of a
            value. DECIMAL: precision * 256 + scale. BIT: number of bits. Others: the bytes read little-endian.
        unsigned: per column, None when the event lacks it (MySQL has it since 8.0, MariaDB with `binlog_row_metadata`)
            or the column is not a number.
        collations: collation id per text column, None for others or when the event lacks it.
        names: column names (`binlog_row_metadata=FULL`), empty when the event lacks them.
        nullable: per column.
        optional: the other optional metadata fields by number, unparsed; see `described`.
    """

    table: TableId
    types: tuple[int, ...]
    metadata: tuple[int, ...]
    unsigned: tuple[bool | None, ...]
    collations: tuple[int | None, ...]
    names: tuple[str, ...]
    nullable: tuple[bool, ...] = ()
    optional: Mapping[int, bytes] = field(default_factory=dict, compare=False)


class ByteReader:
    """Reads a byte string front to back; a read past the end raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, count: int) -> bytes:
        """Read the next `count` bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise IndexError(f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        """Read the next byte as a number."""
        return self.read(1)[0]

    def packed(self) -> int:
        """Read a length-encoded integer."""
        first = self.byte()
        if first < 251:
            return first
        if first not in (252, 253, 254):
            raise IndexError(f"{first} is no length")
        return int.from_bytes(self.read({252: 2, 253: 3, 254: 8}[first]), "little")

    def has_rest(self) -> bool:
        """Return whether bytes are left."""
        return self.at < len(self.data)


def parse_table_map(body: bytes, where: str) -> TableMapEvent:
    """Parse a TABLE_MAP event's body, from after the 6-byte table id to its end without checksum.

    Raises CorruptLog, with `where`, when lengths do not add up.
    """
    try:
        return _parse(ByteReader(body))
    except (IndexError, ValueError) as error:
        raise CorruptLog(
            f"a TABLE_MAP event cannot be read: {error}",
            where=where,
            hint="check the log file with mysqlbinlog --verify-binlog-checksum",
        ) from error


def table_name(body: bytes) -> TableId:
    """Parse only the table's name. Raises IndexError or UnicodeDecodeError when the event is truncated."""
    reader = ByteReader(body)
    reader.read(2)
    database = reader.read(reader.byte()).decode()
    reader.read(1)
    return TableId(database, reader.read(reader.byte()).decode())


def _parse(reader: ByteReader) -> TableMapEvent:
    reader.read(2)
    database = reader.read(reader.byte()).decode()
    reader.read(1)
    table = reader.read(reader.byte()).decode()
    reader.read(1)
    count = reader.packed()
    codes = reader.read(count)
    fields = ByteReader(reader.read(reader.packed()))
    pairs = [_metadata(code, fields) for code in codes]
    if fields.has_rest():
        raise IndexError(f"{len(fields.data) - fields.at} bytes of column metadata left over")
    nulls = reader.read((count + 7) // 8)
    types = tuple(code for code, _ in pairs)
    optional = _optional(reader)
    return TableMapEvent(
        TableId(database, table),
        types,
        tuple(value for _, value in pairs),
        _signedness(types, optional.get(_SIGNEDNESS)),
        _collations(types, optional),
        _names(optional.get(_COLUMN_NAME), count),
        tuple(bool(nulls[index >> 3] >> (index & 7) & 1) for index in range(count)),
        optional,
    )


def _metadata(code: int, fields: ByteReader) -> tuple[int, int]:
    if code in _ONE_BYTE:
        return code, fields.byte()
    if code == TYPED_ARRAY:
        element = fields.byte()
        _metadata(element, fields)
        return code, element
    if code not in _TWO_BYTES:
        return code, 0
    low, high = fields.byte(), fields.byte()
    if code == STRING:
        return _string_metadata(low, high)
    if code in (ENUM, SET):
        return code, high
    if code == NEWDECIMAL:
        return code, low << 8 | high
    if code == BIT:
        return code, high * 8 + low
    return code, high << 8 | low


def _string_metadata(real_type: int, length: int) -> tuple[int, int]:
    """Decode the type of CHAR, ENUM and SET: bits 4 and 5 are inverted bits 8 and 9 of a length above 255."""
    if real_type & 0x30 != 0x30:
        return real_type | 0x30, length | ((real_type & 0x30) ^ 0x30) << 4
    return real_type, length


def _optional(reader: ByteReader) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    while reader.has_rest():
        kind = reader.byte()
        fields[kind] = reader.read(reader.packed())
    return fields


def _signedness(types: tuple[int, ...], field: bytes | None) -> tuple[bool | None, ...]:
    """Return whether each number is unsigned. A YEAR has no sign, but a bit, which is set; not in early MySQL 8.0."""
    bits = _sign_bits(types, field, _NUMERIC)
    years = [bit for bit, code in zip(bits, types, strict=True) if code == YEAR]
    if not all(years):
        bits = _sign_bits(types, field, _SIGNED)
    return tuple(None if code == YEAR else bit for bit, code in zip(bits, types, strict=True))


def signedness_without_years(found: TableMapEvent) -> tuple[bool | None, ...]:
    """Return what `found.unsigned` is when YEAR has no bit, as in MySQL 8.0.12: both may be readable."""
    return _sign_bits(found.types, found.optional.get(_SIGNEDNESS), _SIGNED)


def _sign_bits(types: tuple[int, ...], field: bytes | None, counted: frozenset[int]) -> tuple[bool | None, ...]:
    numeric = [index for index, code in enumerate(types) if code in counted]
    signs: list[bool | None] = [None] * len(types)
    if field is not None and len(field) == (len(numeric) + 7) // 8:
        for bit, index in enumerate(numeric):
            signs[index] = bool(field[bit >> 3] << (bit & 7) & 0x80)
    return tuple(signs)


def _collations(types: tuple[int, ...], optional: dict[int, bytes]) -> tuple[int | None, ...]:
    """Return the collations of text columns; all None when the event lacks them or is ambiguous.

    Text columns are counted, and MariaDB counts GEOMETRY among them, as binary, while MySQL does not. Both
    interpretations are tried, and only common results are used; for the others the table's definition decides.
    """
    plain = [index for index, code in enumerate(types) if code in _TEXT]
    with_geometry = [index for index, code in enumerate(types) if code in _TEXT or code == GEOMETRY]
    counted = [reading for text in (plain, with_geometry) if (reading := _text_collations(text, optional)) is not None]
    readings = [r for r in counted if all(r[index] == _BINARY for index in r if types[index] == GEOMETRY)]
    found: list[int | None] = [None] * len(types)
    for index in plain:
        ids = {reading[index] for reading in readings}
        found[index] = ids.pop() if len(ids) == 1 else None
    return tuple(found)


def _text_collations(text: list[int], optional: dict[int, bytes]) -> dict[int, int] | None:
    """Return the collation by column index if these columns are the counted ones; None if that does not fit."""
    if (field := optional.get(_COLUMN_CHARSET)) is not None:
        ids = packed_numbers(field)
        return dict(zip(text, ids, strict=True)) if len(ids) == len(text) else None
    if (field := optional.get(_DEFAULT_CHARSET)) is None:
        return None
    default, *pairs = packed_numbers(field)
    if any(ordinal >= len(text) for ordinal in pairs[::2]):
        return None
    return dict.fromkeys(text, default) | {
        text[ordinal]: collation for ordinal, collation in zip(pairs[::2], pairs[1::2], strict=True)
    }


def packed_numbers(field: bytes) -> list[int]:
    """Read consecutive length-encoded integers."""
    reader = ByteReader(field)
    values = []
    while reader.has_rest():
        values.append(reader.packed())
    return values


def _names(field: bytes | None, count: int) -> tuple[str, ...]:
    if field is None:
        return ()
    reader = ByteReader(field)
    names = []
    while reader.has_rest():
        names.append(reader.read(reader.packed()).decode())
    if len(names) != count:
        raise IndexError(f"{len(names)} column names for {count} columns")
    return tuple(names)
