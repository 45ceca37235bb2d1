"""Parses column types of MySQL 5.7 to 9.7 and MariaDB 10 and 11, with all synonyms, to `TypeSpec`.

Source of the grammar: the `type` and `field_type` rules of sql/sql_yacc.yy in both servers.
"""

from __future__ import annotations

import re

from connectors.shared.ddl.charsets import charset_name
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.statements import TypeSpec
from connectors.shared.ddl.tokens import TokenKind, Unreadable

_INTEGERS = {
    "TINYINT": "tinyint", "INT1": "tinyint", "SMALLINT": "smallint", "INT2": "smallint", "MEDIUMINT": "mediumint",
    "MIDDLEINT": "mediumint", "INT3": "mediumint", "INT": "int", "INTEGER": "int", "INT4": "int", "BIGINT": "bigint",
    "INT8": "bigint",
}  # fmt: skip
_DECIMALS = {"DECIMAL", "DEC", "NUMERIC", "FIXED"}
_FLOATS = {"FLOAT": "float", "FLOAT4": "float", "DOUBLE": "double", "FLOAT8": "double", "REAL": "double"}
_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(\.\d{1,6})?"
_MOMENT = re.compile(f"{_DATE} {_CLOCK}")
STORED_TEXT = {
    "date": re.compile(_DATE), "datetime": _MOMENT, "timestamp": _MOMENT, "time": re.compile(rf"-?[1-9]?{_CLOCK}"),
}  # fmt: skip
"""Server spellings of values of these types."""
_TEMPORAL = {"TIME": "time", "DATETIME": "datetime", "TIMESTAMP": "timestamp", "DATE": "date", "YEAR": "year"}
_CHARS = {
    "CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar", "VARCHARACTER": "varchar", "NCHAR": "char",
    "NVARCHAR": "varchar",
}  # fmt: skip
_LOBS = {
    "TINYTEXT": "tinytext", "TEXT": "text", "MEDIUMTEXT": "mediumtext", "LONGTEXT": "longtext",
    "TINYBLOB": "tinyblob", "BLOB": "blob", "MEDIUMBLOB": "mediumblob", "LONGBLOB": "longblob",
}  # fmt: skip
_PLAIN = {
    "JSON": "json", "GEOMETRY": "geometry", "POINT": "point", "LINESTRING": "linestring", "POLYGON": "polygon",
    "MULTIPOINT": "multipoint", "MULTILINESTRING": "multilinestring", "MULTIPOLYGON": "multipolygon",
    "GEOMETRYCOLLECTION": "geometrycollection", "GEOMCOLLECTION": "geometrycollection", "UUID": "uuid",
    "INET4": "inet4", "INET6": "inet6",
}  # fmt: skip
_BINARIES = {"BINARY": "binary", "VARBINARY": "varbinary"}


def parse_type(cursor: Cursor) -> TypeSpec:
    """Parse the type at the cursor. Raises Unreadable for an unknown type."""
    schema = _schema(cursor)
    if (schema == "MAXDB_SCHEMA" and cursor.at("TIMESTAMP")) or (schema == "ORACLE_SCHEMA" and cursor.at("DATE")):
        cursor.next()
        return TypeSpec("datetime", _length(cursor))
    if cursor.dialect.oracle:
        oracle = _oracle_type(cursor)
        if oracle is not None:
            return oracle
    if cursor.peek().kind is not TokenKind.NAME:
        raise cursor.unexpected("a column type")
    start = cursor.peek()
    spec = _known_type(cursor, cursor.next().word)
    if spec is None:
        raise Unreadable(f"unknown column type {start.text!r} at offset {start.start}")
    return spec


def _schema(cursor: Cursor) -> str:
    """Return whose type names follow; empty for the server's own.

    MariaDB allows a prefix before the type, otherwise sql_mode decides.
    """
    if cursor.at_any("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA") and cursor.at_symbol(".", 1):
        written = cursor.next().word
        cursor.next()
        return written
    return "ORACLE_SCHEMA" if cursor.dialect.oracle else "MAXDB_SCHEMA" if cursor.dialect.maxdb else ""


def _known_type(cursor: Cursor, word: str) -> TypeSpec | None:
    if word in _INTEGERS:
        length = _length(cursor)
        return TypeSpec(_INTEGERS[word], length, unsigned=_sign(cursor))
    if word in _DECIMALS:
        length, scale = _length_scale(cursor)
        return TypeSpec("decimal", length, scale, unsigned=_sign(cursor))
    if word in _FLOATS:
        return _float(cursor, word)
    if word in _TEMPORAL:
        return TypeSpec(_TEMPORAL[word], _length(cursor), unsigned=_sign(cursor))
    if word in _BINARIES:
        return TypeSpec(_BINARIES[word], _length(cursor))
    if word in _LOBS:
        length = _length(cursor) if word in ("TEXT", "BLOB") else None
        text = word.endswith("TEXT")
        return TypeSpec(_LOBS[word], length, charset=parse_charset(cursor) if text else None)
    if word in ("ENUM", "SET"):
        return TypeSpec(word.lower(), labels=_labels(cursor), charset=parse_charset(cursor))
    if word in ("BOOL", "BOOLEAN"):
        return TypeSpec("tinyint", 1)
    if word == "SERIAL":
        return TypeSpec("bigint", unsigned=True, serial=True)
    if word in ("BIT", "VECTOR"):
        return TypeSpec(word.lower(), _length(cursor))
    if word in _PLAIN:
        _length_scale(cursor)  # MariaDB accepts a meaningless length for a geometry
        _srid(cursor)
        return TypeSpec(_PLAIN[word])
    return _text(cursor, word)


def _text(cursor: Cursor, word: str) -> TypeSpec | None:
    national = word in ("NATIONAL", "NCHAR", "NVARCHAR")
    if word == "NATIONAL":
        word = cursor.accept_any("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER")
    if word == "LONG":
        return _long(cursor)
    if word not in _CHARS:
        return None
    name = _CHARS[word]
    if name == "char" and cursor.accept_any("VARYING", *(("VARCHAR", "VARCHARACTER") if word == "NCHAR" else ())):
        name = "varchar"
    length = _length(cursor)
    charset = parse_charset(cursor)
    return TypeSpec(name, length, charset="utf8mb3" if national else charset)


def _long(cursor: Cursor) -> TypeSpec:
    if cursor.accept("VARBINARY"):
        return TypeSpec("mediumblob")
    if cursor.at_any("CHAR", "CHARACTER") and cursor.peek(1).word == "VARYING":
        cursor.next()
        cursor.next()
    else:
        cursor.accept_any("VARCHAR", "VARCHARACTER")
    return TypeSpec("mediumtext", charset=parse_charset(cursor))


def _oracle_type(cursor: Cursor) -> TypeSpec | None:
    """Parse types that differ, or exist only, under MariaDB's sql_mode=ORACLE."""
    word = cursor.accept_any("BLOB", "CLOB", "NUMBER", "RAW", "VARCHAR2")
    if word == "BLOB":
        return TypeSpec("longblob") if not cursor.at_symbol("(") else TypeSpec("blob", _length(cursor))
    if word == "CLOB":
        return TypeSpec("longtext", charset=parse_charset(cursor))
    if word == "RAW":
        return TypeSpec("varbinary", _length(cursor))
    if word == "VARCHAR2":
        return TypeSpec("varchar", _length(cursor), charset=parse_charset(cursor))
    if word == "NUMBER":
        length, scale = _length_scale(cursor)
        return TypeSpec("double") if length is None else TypeSpec("decimal", length, scale, unsigned=_sign(cursor))
    return None


def _float(cursor: Cursor, word: str) -> TypeSpec:
    name = _FLOATS[word]
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if word == "REAL" and cursor.dialect.real_as_float:
        name = "float"
    length, scale = _length_scale(cursor)
    if scale is None:
        # FLOAT(p) is a precision in bits: up to 24 it is a float, up to 53 a double.
        name = "double" if length is not None and length > 24 else name
        length = None
    return TypeSpec(name, length, scale, unsigned=_sign(cursor))


def _length(cursor: Cursor) -> int | None:
    if not cursor.accept_symbol("("):
        return None
    length = cursor.length() if not cursor.at_symbol(")") else None
    cursor.expect_symbol(")")
    return length


def _length_scale(cursor: Cursor) -> tuple[int | None, int | None]:
    if not cursor.accept_symbol("("):
        return None, None
    length = cursor.length()
    scale = cursor.integer() if cursor.accept_symbol(",") else None
    cursor.expect_symbol(")")
    return length, scale


def _sign(cursor: Cursor) -> bool:
    unsigned = False
    while word := cursor.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        unsigned = unsigned or word != "SIGNED"
    return unsigned


def _labels(cursor: Cursor) -> tuple[str | bytes, ...]:
    cursor.expect_symbol("(")
    labels = [_label(cursor)]
    while cursor.accept_symbol(","):
        labels.append(_label(cursor))
    cursor.expect_symbol(")")
    return tuple(labels)


def _label(cursor: Cursor) -> str | bytes:
    ahead = 1 if cursor.peek().text.startswith("_") and cursor.peek().kind is TokenKind.NAME else 0
    if cursor.peek(ahead).kind not in (TokenKind.HEX, TokenKind.BIT):
        return cursor.string() if ahead else cursor.dialect.converted(cursor.string())
    for _ in range(ahead):
        cursor.next()
    token = cursor.next()
    return literal_bytes(token.kind, token.text)


def literal_bytes(kind: TokenKind, digits: str) -> bytes:
    """Return the bytes of a hex or bit literal."""
    if kind is TokenKind.HEX:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


def parse_charset(cursor: Cursor) -> str | None:
    """Parse CHARACTER SET and its short forms.

    They may stand in any order with the BINARY attribute, which only selects a collation.
    """
    charset: str | None = None
    while True:
        if cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET") or cursor.accept("CHAR", "SET"):
            charset = charset_name(cursor.word_or_string())
        elif cursor.accept("ASCII"):
            charset = "latin1"
        elif cursor.accept("UNICODE"):
            charset = "ucs2"
        elif cursor.accept("BYTE"):
            charset = "binary"
        elif not cursor.accept("BINARY"):
            return charset


def _srid(cursor: Cursor) -> None:
    if cursor.accept("REF_SYSTEM_ID"):
        cursor.expect_symbol("=")
        cursor.integer()
