"""Lossless mapping of column types to those of the sink's server, and back. Pure text.

A column whose source gives its own type (`enum('a','b')`, `mediumint unsigned`) gets that type, so MySQL to MySQL is
one to one. Everything else:

| type | server | why |
|---|---|---|
| BOOLEAN | tinyint(1) | |
| STRING, JSON, BYTES | longtext, json, longblob | of any length; in a key VARCHAR and VARBINARY, which can be indexed |
| TIMESTAMP, TIMESTAMP_LTZ, TIME | datetime(n), timestamp(n), time(n) | sessions are in UTC |
| DECIMAL | decimal(p,s) | up to 65 digits, 30 of them after the point |
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from cdc.schema import Column, DataType, Kind
from cdc.types.kinds import BLOBS, RANGES, TEXTS
from connectors.mysql.server.column_type import parse_column_type
from connectors.mysql.server.server_info import version_number
from connectors.mysql.table import MySqlColumn, data_type, spelled

Flavor = Literal["mysql", "mariadb", "oceanbase"]
"""The kind of server."""

_AS_BYTES: dict[Flavor, tuple[Kind, ...]] = {"mysql": (), "mariadb": (Kind.VECTOR,), "oceanbase": (Kind.GEOMETRY,)}
KEY_BYTES = 3072
"""Maximum key length of an InnoDB table, in bytes ("InnoDB Limits")."""

_KEY_PARTS = 16
"""Maximum number of columns of a key, from the same source."""

_UNBOUNDED = frozenset({Kind.STRING, Kind.JSON, Kind.BYTES})
_NAMES = {
    Kind.BOOLEAN: "tinyint(1)",
    Kind.TINYINT: "tinyint",
    Kind.SMALLINT: "smallint",
    Kind.INT: "int",
    Kind.BIGINT: "bigint",
    Kind.TINYINT_UNSIGNED: "tinyint unsigned",
    Kind.SMALLINT_UNSIGNED: "smallint unsigned",
    Kind.INT_UNSIGNED: "int unsigned",
    Kind.BIGINT_UNSIGNED: "bigint unsigned",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.DATE: "date",
    Kind.STRING: "longtext",
    Kind.JSON: "json",
    Kind.BYTES: "longblob",
    Kind.GEOMETRY: "geometry",
}
_SIZED = {
    Kind.CHAR: "char", Kind.VARCHAR: "varchar", Kind.BINARY: "binary", Kind.VARBINARY: "varbinary",
    Kind.TIME: "time", Kind.TIMESTAMP: "datetime", Kind.TIMESTAMP_LTZ: "timestamp", Kind.VECTOR: "vector",
}  # fmt: skip
_LONGEST = {
    "tinytext": 255, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1,
    "tinyblob": 255, "blob": 2**16 - 1, "mediumblob": 2**24 - 1, "longblob": 2**32 - 1,
}  # fmt: skip
_LONGER = {"tinytext": "text", "text": "mediumtext", "mediumtext": "longtext"}
"""Texts whose length is counted in bytes: the next larger type has room for the bytes they take in utf8mb4."""

_AS_LONG_IN_UTF8MB4 = frozenset({"", "utf8mb4", "utf8mb3", "ascii"})
_LONGEST_VARCHAR = 16_383
_LARGER = {
    Kind.CHAR: (255, Kind.VARCHAR),
    Kind.VARCHAR: (_LONGEST_VARCHAR, Kind.STRING),
    Kind.BINARY: (255, Kind.VARBINARY),
    Kind.VARBINARY: (65_535, Kind.BYTES),
}
"""The longest length of a type, and the type that takes longer values."""
_MARIADB_ONLY = {"uuid": "char(36)", "inet4": "varchar(15)", "inet6": "varchar(45)"}
_WIDTH = re.compile(r"^((?:tiny|small|medium|big)?int)\(\d+\)")
_CHARACTERS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_SHAPES = frozenset(
    {"point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
)
_SIGNED = frozenset({"decimal", "float", "double"})
"""Number types that map to one type here, UNSIGNED or not."""
_INDEXED_IN_PART = frozenset({*_LONGEST, "json", "geometry", "vector"})

_PADDED = "utf8mb4_bin"
_KEY_COLLATION = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin", "oceanbase": _PADDED}
_UNPADDED_SINCE = (8, 0, 17)


@dataclass(frozen=True, slots=True)
class ServerType:
    """A column's type as the server spells it (`varchar(64)`, `bigint unsigned`), and the collation of its text."""

    text: str
    collation: str = ""

    def __str__(self) -> str:
        return f"{self.text} COLLATE {self.collation}" if self.collation else self.text

    @property
    def name(self) -> str:
        """The base type in lower case: `varchar`."""
        return parse_column_type(self.text).type

    @property
    def is_characters(self) -> bool:
        """Whether the column holds text, with a character set and a collation."""
        return self.name in _CHARACTERS

    @property
    def equates_texts(self) -> bool:
        """Whether its collation treats different texts as equal, more than trailing spaces."""
        return self.is_characters and self.name not in ("enum", "set") and not self.collation.endswith("_bin")

    @property
    def can_be_key(self) -> bool:
        """Whether whole values can be indexed; other types only by a prefix, which does not identify a row."""
        return self.name not in _INDEXED_IN_PART

    @property
    def data_type(self) -> DataType:
        """This tool's type."""
        parsed = parse_column_type(self.text)
        column = MySqlColumn("", parsed.type, parsed.length, parsed.scale, parsed.unsigned, labels=parsed.labels)
        return data_type(column, tinyint1_as_boolean=True)


def has_ambiguous_labels(found: ServerType) -> bool:
    """Return whether labels of an ENUM or SET differ only in case or accents, which most collations ignore."""
    labels = parse_column_type(found.text).labels
    return len({_folded(label) for label in labels}) < len(labels)


def _folded(label: str) -> str:
    apart = unicodedata.normalize("NFKD", label.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def key_collation(flavor: Flavor, version: str) -> str:
    """Return the collation of key columns on a server of this version.

    It tells apart keys that differ in the source, by trailing spaces too where the server can: MySQL since 8.0.17.
    """
    padded = flavor == "mysql" and version_number(version) < _UNPADDED_SINCE
    return _PADDED if padded else _KEY_COLLATION[flavor]


def server_type(wanted: DataType, *, key_parts: int = 0, flavor: Flavor = "mysql") -> ServerType:
    """Return the type that keeps every value; as one of `key_parts` parts of a key, a type that can be indexed.

    In MariaDB JSON is a text, and before 11.7 a vector is stored as bytes; so is a geometry in OceanBase, which knows
    few reference systems.
    """
    kind, length = wanted.kind, wanted.length
    if kind in _AS_BYTES[flavor]:
        return ServerType("longblob")
    if flavor == "mariadb" and kind is Kind.JSON and not key_parts:
        return ServerType("longtext")
    if key_parts and kind in _UNBOUNDED:
        room = KEY_BYTES // key_parts
        return ServerType(f"varbinary({room})" if kind is Kind.BYTES else f"varchar({room // 4})")
    if kind is Kind.DECIMAL:
        return ServerType(f"decimal({length},{wanted.scale or 0})")
    return ServerType(_NAMES[kind] if kind in _NAMES else _sized(kind, length))


def _sized(kind: Kind, length: int | None) -> str:
    """Return a type with its length, or the next larger type that has room for it."""
    if kind in _LARGER:
        longest, larger = _LARGER[kind]
        if length is None and kind in (Kind.VARCHAR, Kind.VARBINARY):
            return _NAMES[larger]
        if length is not None and length > longest:
            return _NAMES[larger] if larger in _NAMES else _sized(larger, length)
    with_length = bool(length) or (length == 0 and kind in (*TEXTS, *BLOBS))
    return f"{_SIZED[kind]}({length})" if with_length else _SIZED[kind]


def is_key_type(actual: ServerType, wanted: DataType) -> bool:
    """Return whether a key column has a type created for values of any length, whatever the number of key columns."""
    if wanted.kind not in _UNBOUNDED:
        return False
    return any(actual.text == server_type(wanted, key_parts=parts).text for parts in range(1, _KEY_PARTS + 1))


def shared_key_type(found: ServerType, parts: int) -> ServerType:
    """Return the type of one of `parts` key columns, for a type that would take the whole key length."""
    if found.collation and not found.collation.startswith("utf8mb4"):
        return found
    for wanted in (DataType(Kind.STRING), DataType(Kind.BYTES)):
        if found.text == server_type(wanted, key_parts=1).text:
            return replace(found, text=server_type(wanted, key_parts=parts).text)
    return found


def column_type(column: Column, *, key_parts: int, flavor: Flavor) -> ServerType:
    """Return the type of a new column: its source's own if that holds the same values, else as `server_type`."""
    own = column.source_type
    if own:
        try:
            parsed = parse_column_type(own)
            found = ServerType(canonical(own))
            same = column.type in (found.data_type, _not_boolean(found))
            fits = same and column.type.kind not in (*_AS_BYTES[flavor], Kind.JSON)
            fits = fits and len({*parsed.labels}) == len(parsed.labels)  # servers show each emoji in a label as `?`
        except ValueError:
            return server_type(column.type, key_parts=key_parts, flavor=flavor)
        too_long = parsed.type == "varchar" and (parsed.length or 0) > _LONGEST_VARCHAR  # in utf8mb4
        if fits and (found.can_be_key or not key_parts) and not too_long:
            if parsed.type in _MARIADB_ONLY and flavor != "mariadb":
                return ServerType(_MARIADB_ONLY[parsed.type])
            return found if column.charset in _AS_LONG_IN_UTF8MB4 else ServerType(_LONGER.get(found.text, found.text))
    return server_type(column.type, key_parts=key_parts, flavor=flavor)


def respelled(actual: ServerType, wanted: ServerType) -> ServerType | None:
    """Return the type that holds every value of both, None if the column's own does.

    For a column whose source type changed within the same type of this tool.
    """
    names = actual.name, wanted.name
    one, other = parse_column_type(actual.text), parse_column_type(wanted.text)
    if names in (("enum", "enum"), ("set", "set")):
        more = tuple(label for label in other.labels if label not in one.labels)
        if names[1] == "set" and not more and {*one.labels} == {*other.labels} and one.labels != other.labels:
            return wanted  # the text of a value has its labels in this order
        if not more or len(one.labels) + len(more) == len(other.labels):
            return wanted if more else None
        return ServerType(spelled(MySqlColumn("", one.type, labels=one.labels + more)))
    if names in (("bit", "bit"), ("bit", "binary")):
        bits = (other.length or 1) * (8 if names[1] == "binary" else 1)
        return ServerType(f"bit({bits})") if bits > (one.length or 1) else None
    if names[0] in _LONGEST and names[1] in _LONGEST:
        return wanted if _LONGEST[names[0]] < _LONGEST[names[1]] else None
    if names[0] in ("enum", "set"):
        return wanted if names[1] in (*_LONGEST, "varchar") else ServerType("longtext")
    if names[0] == names[1] and names[0] in _SIGNED and one.unsigned and not other.unsigned:
        return ServerType(actual.text.removesuffix(" unsigned"))
    wider = names[0] in ("float", "double") and names[0] == names[1] and "," in actual.text
    larger = names in (("mediumint", "int"), ("year", "smallint"), ("year", "mediumint"), ("year", "int"))
    shape = names[0] in _SHAPES and names[0] != names[1] and names[1] in (*_SHAPES, "geometry")
    return wanted if actual.text != wanted.text and (wider or larger or shape) else None


def canonical(text: str) -> str:
    """Return the spelling of MySQL 8 and later: integers have no display width except the boolean `tinyint(1)`."""
    return _WIDTH.sub(r"\1", text) if text != "tinyint(1)" else text


def holds(actual: ServerType, wanted: DataType) -> bool:
    """Return whether an existing column stores every value of the source's type unchanged."""
    found = actual.data_type
    if wanted in (found, _not_boolean(actual)) or actual.text == server_type(wanted).text:
        return True
    if wanted.kind in RANGES and found.kind in RANGES:
        (low, high), (least, most) = RANGES[wanted.kind], RANGES[found.kind]
        return least <= low and high <= most
    if wanted.kind is Kind.DECIMAL and found.kind is Kind.DECIMAL:
        whole = (found.length or 10) - (found.scale or 0) >= (wanted.length or 10) - (wanted.scale or 0)
        return whole and (found.scale or 0) >= (wanted.scale or 0)
    if wanted.kind is Kind.FLOAT and found.kind is Kind.DOUBLE:
        return True
    if wanted.kind in (Kind.VECTOR, Kind.GEOMETRY):
        return actual.text == "longblob"
    if wanted.kind is Kind.JSON:
        return actual.text == "longtext"
    if wanted.kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return found.kind is wanted.kind and (found.length or 0) >= (wanted.length or 0)
    return _holds_text(actual, found, wanted)


def _holds_text(actual: ServerType, found: DataType, wanted: DataType) -> bool:
    for sized, any_length in (((Kind.CHAR, Kind.VARCHAR), Kind.STRING), ((Kind.BINARY, Kind.VARBINARY), Kind.BYTES)):
        kinds = (*sized, any_length)
        if wanted.kind not in kinds or found.kind not in kinds:
            continue
        if found.kind is any_length:
            # Members of ENUM and SET are what the source has, or the server refuses the row.
            room = _LONGEST.get(actual.name, _LONGEST["longtext"])
            needed = 4 * (wanted.length or 0) if wanted.kind is Kind.CHAR or wanted.kind is Kind.VARCHAR else 0
            return room >= needed
        return (
            found.kind in (Kind.VARCHAR, Kind.VARBINARY)
            and wanted.length is not None
            and _length(found) >= wanted.length
        )
    return False


def _length(wanted: DataType) -> int:
    return wanted.length or 0


def _not_boolean(actual: ServerType) -> DataType:
    """Return this tool's type with TINYINT(1) as a number, as by default."""
    parsed = parse_column_type(actual.text)
    column = MySqlColumn("", parsed.type, parsed.length, parsed.scale, parsed.unsigned, labels=parsed.labels)
    return data_type(column)
