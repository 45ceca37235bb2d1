"""Convert the types that Canal's and TiCDC's messages have in `mysqlType` to fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc.schema import DataType, Kind
from connectors.kafka.formats.fields import Encoding, Field

_TYPE = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*([a-z ]*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^'\\]|\\.|'')*)'")
_SYNONYMS = {
    "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "int4": "int",
    "int8": "bigint", "float4": "float", "float8": "double", "serial": "bigint",
}  # fmt: skip
_INTEGERS = {
    "tinyint": (Kind.TINYINT, Kind.TINYINT_UNSIGNED), "smallint": (Kind.SMALLINT, Kind.SMALLINT_UNSIGNED),
    "mediumint": (Kind.INT, Kind.INT_UNSIGNED), "int": (Kind.INT, Kind.INT_UNSIGNED),
    "integer": (Kind.INT, Kind.INT_UNSIGNED), "bigint": (Kind.BIGINT, Kind.BIGINT_UNSIGNED),
}  # fmt: skip
_WITHOUT_SIZE = {
    "float": Kind.FLOAT, "double": Kind.DOUBLE, "real": Kind.DOUBLE, "year": Kind.INT, "date": Kind.DATE,
    "json": Kind.JSON, "bool": Kind.TINYINT, "boolean": Kind.TINYINT,
}  # fmt: skip
_TEMPORAL = {"time": Kind.TIME, "datetime": Kind.TIMESTAMP, "timestamp": Kind.TIMESTAMP_LTZ}
_SIZED_TEXTS = {"char": Kind.CHAR, "varchar": Kind.VARCHAR}
_SIZED_BYTES = {"binary": Kind.BINARY, "varbinary": Kind.VARBINARY}
_LABELLED = {"enum": Encoding.ENUM_NUMBER, "set": Encoding.SET_NUMBER}
_TEXTS = {
    "tinytext", "text", "mediumtext", "longtext", "string", "uuid", "inet4", "inet6", "xmltype", "vector", "long",
    "character", "nchar", "national", "nvarchar", "varcharacter",
}  # fmt: skip
_MOST_DIGITS, _MOST_DECIMAL = 12, 65


@dataclass(frozen=True, slots=True)
class _ColumnType:
    """The parts of a column's type: `decimal(10,2) unsigned` has `word`, `inside` and `unsigned`; `text` is the whole.

    `zone` is the time zone of its values.
    """

    column: str
    text: str
    word: str
    inside: str
    unsigned: bool
    zone: str

    @property
    def sizes(self) -> list[int]:
        """The numbers in the parentheses."""
        numbers = self.inside.split(",")
        return [int(part) for part in numbers if part.strip().isdecimal() and len(part) < _MOST_DIGITS]

    @property
    def length(self) -> int | None:
        """The first number in the parentheses."""
        return next(iter(self.sizes), None)


def field_of(name: str, text: object, zone: str) -> Field:
    """The field of a column of this type. Raises ValueError for a text that is no type."""
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        raise ValueError(f"the type of column {name} is not a type of MySQL: {text!r:.40}")
    type_name, attributes = match[1].lower(), match[3].lower()
    type_name = _SYNONYMS.get(type_name, type_name)
    unsigned = "unsigned" in attributes or "zerofill" in attributes
    return _FIELDS.get(type_name, _text)(_ColumnType(name, text, type_name, match[2] or "", unsigned, zone))


def unsigned_integer(text: str) -> Kind | None:
    """The kind of an unsigned integer type of MySQL, such as `INT8 UNSIGNED ZEROFILL`; None for any other type."""
    match = _TYPE.fullmatch(text)
    if match is None or not {"unsigned", "zerofill"} & set(match[3].lower().split()):
        return None
    return _INTEGERS.get(_SYNONYMS.get(match[1].lower(), match[1].lower()), (None, None))[1]


def _integer(of: _ColumnType) -> Field:
    return Field(of.column, DataType(_INTEGERS[of.word][of.unsigned]))


def _decimal(of: _ColumnType) -> Field:
    digits, scale = of.length or 10, of.sizes[1] if len(of.sizes) > 1 else 0
    if not scale <= digits <= _MOST_DECIMAL:
        raise ValueError(f"column {of.column} is a decimal that MySQL does not have: {of.text!r:.40}")
    return Field(of.column, DataType(Kind.DECIMAL, digits, scale))


def _without_size(of: _ColumnType) -> Field:
    return Field(of.column, DataType(_WITHOUT_SIZE[of.word]))


def _temporal(of: _ColumnType) -> Field:
    return Field(of.column, DataType(_TEMPORAL[of.word], of.length or 0), zone=of.zone)


def _sized_text(of: _ColumnType) -> Field:
    """The field of CHAR or VARCHAR; STRING if there is no length, as TiCDC writes it."""
    return Field(of.column, _sized(of, _SIZED_TEXTS[of.word], Kind.STRING))


def _sized_bytes(of: _ColumnType) -> Field:
    return Field(of.column, _sized(of, _SIZED_BYTES[of.word], Kind.BYTES), Encoding.LATIN1)


def _sized(of: _ColumnType, kind: Kind, unbounded: Kind) -> DataType:
    return DataType(unbounded) if of.length is None else DataType(kind, of.length)


def _bits(of: _ColumnType) -> Field:
    bits = of.length or 1
    data_type = DataType(Kind.BOOLEAN) if bits == 1 else DataType(Kind.BINARY, (bits + 7) // 8)
    return Field(of.column, data_type, Encoding.BITS_NUMBER)


def _labelled(of: _ColumnType) -> Field:
    return Field(of.column, DataType(Kind.STRING), _LABELLED[of.word], labels=_labels(of.inside))


def _labels(arguments: str) -> tuple[str, ...]:
    return tuple(re.sub(r"\\(.)", r"\1", label.replace("''", "'")) for label in _LABEL.findall(arguments))


def _bytes(of: _ColumnType) -> Field:
    return Field(of.column, DataType(Kind.BYTES), Encoding.LATIN1)


def _geometry(of: _ColumnType) -> Field:
    return Field(of.column, DataType(Kind.GEOMETRY), Encoding.LATIN1)


def _text(of: _ColumnType) -> Field:
    """The field of text, and of unknown types."""
    return Field(of.column, DataType(Kind.STRING), zone=of.zone, typed=of.word in _TEXTS)


_FIELDS: Mapping[str, Callable[[_ColumnType], Field]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(("decimal", "numeric", "dec", "fixed"), _decimal),
    **dict.fromkeys(_WITHOUT_SIZE, _without_size),
    **dict.fromkeys(_TEMPORAL, _temporal),
    **dict.fromkeys(_SIZED_TEXTS, _sized_text),
    **dict.fromkeys(_SIZED_BYTES, _sized_bytes),
    "bit": _bits,
    **dict.fromkeys(_LABELLED, _labelled),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob", "bytes"), _bytes),
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
         "geometrycollection", "geomcollection"),
        _geometry,
    ),
}  # fmt: skip
