"""MySQL's column types as text (`decimal(10,2) unsigned`), to fields whose values Canal writes. Pure."""

from __future__ import annotations

import re

from cdc.schema import DataType, Kind
from connectors.kafka.formats.fields import Encoding, Field

_TYPE = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*([a-z ]*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^'\\]|\\.|'')*)'")
_INTEGERS = {
    "tinyint": (Kind.TINYINT, Kind.TINYINT_UNSIGNED), "smallint": (Kind.SMALLINT, Kind.SMALLINT_UNSIGNED),
    "mediumint": (Kind.INT, Kind.INT_UNSIGNED), "int": (Kind.INT, Kind.INT_UNSIGNED),
    "integer": (Kind.INT, Kind.INT_UNSIGNED), "bigint": (Kind.BIGINT, Kind.BIGINT_UNSIGNED),
}  # fmt: skip
_PLAIN = {
    "float": Kind.FLOAT, "double": Kind.DOUBLE, "real": Kind.DOUBLE, "year": Kind.INT, "date": Kind.DATE,
    "json": Kind.JSON, "bool": Kind.TINYINT, "boolean": Kind.TINYINT,
}  # fmt: skip
_TEMPORAL = {"time": Kind.TIME, "datetime": Kind.TIMESTAMP, "timestamp": Kind.TIMESTAMP_LTZ}
_SIZED = {"char": Kind.CHAR, "varchar": Kind.VARCHAR}
_BYTES = {"tinyblob", "blob", "mediumblob", "longblob", "bytes"}
_TEXTS = {
    "tinytext", "text", "mediumtext", "longtext", "string", "uuid", "inet4", "inet6", "xmltype", "vector", "long",
    "character", "nchar", "national", "nvarchar", "varcharacter",
}  # fmt: skip
_SYNONYMS = {
    "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "int4": "int",
    "int8": "bigint", "float4": "float", "float8": "double", "serial": "bigint",
}  # fmt: skip
_MOST_DIGITS, _MOST_DECIMAL = 12, 65
_GEOMETRY = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
}  # fmt: skip


def field_of(name: str, text: object, zone: str) -> Field:
    """The field of a column of this type. Raises ValueError for what is no type."""
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"the type of column {name} is no type of MySQL: {text!r:.40}")
    word, inside, attributes = match[1].lower(), match[2] or "", match[3].lower()
    word = _SYNONYMS.get(word, word)
    unsigned = "unsigned" in attributes or "zerofill" in attributes
    sizes = [int(part) for part in inside.split(",") if part.strip().isdecimal() and len(part) < _MOST_DIGITS]
    length = sizes[0] if sizes else None
    if word in _INTEGERS:
        return Field(name, DataType(_INTEGERS[word][unsigned]))
    if word in ("decimal", "numeric", "dec", "fixed"):
        digits, scale = length or 10, sizes[1] if len(sizes) > 1 else 0
        if not scale <= digits <= _MOST_DECIMAL:
            raise ValueError(f"column {name} is a decimal that MySQL does not have: {text!r:.40}")
        return Field(name, DataType(Kind.DECIMAL, digits, scale))
    if word in _TEMPORAL:
        return Field(name, DataType(_TEMPORAL[word], length or 0), zone=zone)
    if word in _SIZED:  # without a length, as TiCDC writes it, it may be any
        return Field(name, DataType(Kind.STRING) if length is None else DataType(_SIZED[word], length))
    if word in _PLAIN:
        return Field(name, DataType(_PLAIN[word]))
    if word == "bit":
        bits = length or 1
        data_type = DataType(Kind.BOOLEAN) if bits == 1 else DataType(Kind.BINARY, (bits + 7) // 8)
        return Field(name, data_type, Encoding.BITS_NUMBER)
    if word in ("enum", "set"):
        encoding = Encoding.ENUM_NUMBER if word == "enum" else Encoding.SET_NUMBER
        return Field(name, DataType(Kind.STRING), encoding, labels=_labels(inside))
    if word in ("binary", "varbinary"):
        data_type = DataType(Kind.BYTES) if length is None else DataType(Kind[word.upper()], length)
        return Field(name, data_type, Encoding.LATIN1)
    if word in _BYTES:
        return Field(name, DataType(Kind.BYTES), Encoding.LATIN1)
    if word in _GEOMETRY:
        return Field(name, DataType(Kind.GEOMETRY), Encoding.LATIN1)
    return Field(name, DataType(Kind.STRING), zone=zone, typed=word in _TEXTS)


def _labels(inside: str) -> tuple[str, ...]:
    return tuple(re.sub(r"\\(.)", r"\1", label.replace("''", "'")) for label in _LABEL.findall(inside))
