"""Every column type of the two servers: how it is declared, and random values of it as SQL literals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Literal = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A column type. `key`: it may be part of a primary key; `wider`: a declaration that loses nothing."""

    declaration: str
    literal: Literal
    key: bool = False
    wider: str | None = None
    flavor: str | None = None


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"


def _integer(bits: int, unsigned: bool) -> Literal:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def literal(rng: Random) -> str:
        return str(rng.choice([low, high, 0, 1, rng.randint(low, high), rng.randint(-9, 99) if not unsigned else 7]))

    return literal


def _decimal(precision: int, scale: int) -> Literal:
    def literal(rng: Random) -> str:
        whole = rng.randint(0, 10 ** rng.randint(0, precision - scale) - 1) if precision > scale else 0
        if rng.random() < 0.15:
            whole = 10 ** (precision - scale) - 1
        fraction = "".join(rng.choice("0123456789") for _ in range(scale))
        sign = rng.choice(["", "-"])
        return f"{sign}{whole}" + (f".{fraction}" if scale else "")

    return literal


def _real(largest: str) -> Literal:
    def literal(rng: Random) -> str:
        special = ["0", "-0e0", "1e-30", largest, f"-{largest}", "0.1", "1234567.125"]
        return rng.choice([*special, repr(rng.uniform(-1e6, 1e6)), repr(rng.gauss(0, 1))])

    return literal


def _bits(width: int) -> Literal:
    return lambda rng: f"b'{rng.choice([0, 1, 2**width - 1, rng.getrandbits(width)]):b}'"


def _fraction(rng: Random, digits: int) -> str:
    return "." + "".join(rng.choice("0123456789") for _ in range(digits)) if digits else ""


def _day(rng: Random) -> str:
    year = rng.choice([1000, 1582, 1900, 1970, 2000, 2026, 9999])
    return f"{year}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _date(rng: Random) -> str:
    odd = ["0000-00-00", "2026-02-31", "2026-00-10", "2026-05-00", "2024-02-29", "9999-12-31", "1000-01-01"]
    return f"'{rng.choice(odd) if rng.random() < 0.3 else _day(rng)}'"


def _valid_date(rng: Random) -> str:
    """For keys: a date that becomes NULL in the sink cannot tell rows apart."""
    return f"'{_day(rng)}'"


def _datetime(digits: int, *, valid: bool = False) -> Literal:
    def literal(rng: Random) -> str:
        if not valid and rng.random() < 0.2:
            return f"'{rng.choice(['0000-00-00 00:00:00', '2026-02-31 10:11:12', '9999-12-31 23:59:59'])}'"
        clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
        return f"'{_day(rng)} {clock}{_fraction(rng, digits)}'"

    return literal


def _timestamp(digits: int) -> Literal:
    def literal(rng: Random) -> str:
        if rng.random() < 0.1:
            return "'0000-00-00 00:00:00'"
        year = rng.choice([1971, 1999, 2026, 2037])
        clock = f"{rng.randint(4, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
        return f"'{year}-{rng.randint(4, 9):02d}-{rng.randint(1, 28):02d} {clock}{_fraction(rng, digits)}'"

    return literal


def _time(digits: int) -> Literal:
    def literal(rng: Random) -> str:
        edge = ["838:59:59", "-838:59:59", "00:00:00", "-00:00:01", "00:00:00.000001", "-00:00:00.5"]
        if rng.random() < 0.3:
            return f"'{rng.choice(edge)}'"
        sign, hours = rng.choice(["", "-"]), rng.choice([0, rng.randint(0, 23), rng.randint(0, 837)])
        return f"'{sign}{hours:02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}{_fraction(rng, digits)}'"

    return literal


_LETTERS = {
    "ascii": "abcXYZ 019_-%'\"\\",
    "latin1": "abc éÀßÿ€Š~\\'",
    "cp1251": "abc ЖдЯ№",
    "gbk": "ab 中文龍國㐀€"[:7] + "镕",
    "big5": "ab 中文國龍",
    "sjis": "ab 日本語アｱソ表",
    "ujis": "ab 日本語アｱソ",
    "utf16": "ab é中😀𝄞\u200b",
    "utf32": "ab é中😀",
    "ucs2": "ab é中ß",
    "utf8mb3": "ab é中\uffdc'",
    "utf8mb4": "abc é中😀\u0000\n\t\\'\"%_𝄞",
}


def _text(charset: str, longest: int) -> Literal:
    letters = _LETTERS[charset]

    def literal(rng: Random) -> str:
        length = rng.choice([0, 1, 2, longest, rng.randint(0, longest)])
        text = "".join(rng.choice(letters) for _ in range(length))
        return quoted(text)

    return literal


def _bytes(longest: int, *, fixed: bool = False) -> Literal:
    def literal(rng: Random) -> str:
        length = longest if fixed and rng.random() < 0.5 else rng.choice([0, 1, longest, rng.randint(0, longest)])
        data = rng.randbytes(length)
        if fixed and rng.random() < 0.5:
            data = data[: length // 2] + b"\0" * (length - length // 2)
        return f"x'{data.hex()}'"

    return literal


def _one_of(*labels: str) -> Literal:
    return lambda rng: quoted(rng.choice(labels))


def _some_of(*labels: str) -> Literal:
    return lambda rng: quoted(",".join(label for label in labels if rng.random() < 0.5))


def _document(rng: Random, depth: int) -> object:
    leaves: list[object] = [
        None, True, False, 0, -1, 65535, -32769, 2**31, 2**63 - 1, -(2**63), 1.5, -0.25, 1e100, "", "é中😀", "x" * 130,
        rng.random(), "quote\"back\\slash\n",
    ]  # fmt: skip
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(leaves)
    if rng.random() < 0.5:
        return [_document(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice("abcdefg") * rng.randint(1, 3): _document(rng, depth - 1) for _ in range(rng.randint(0, 4))}


_JSON_EXPRESSIONS = (
    "JSON_ARRAY(CAST(1.50 AS DECIMAL(10,2)), CAST('2026-01-02 03:04:05.678' AS DATETIME(3)), CAST('-12:13' AS TIME))",
    "JSON_OBJECT('blob', CAST(x'00ff10' AS BINARY), 'day', CAST('2026-11-21' AS DATE), 'big', 18446744073709551615)",
    "JSON_OBJECT('long', REPEAT('ab', 40000), 'n', 7)",
    "CAST(CAST(-99999999999.0001 AS DECIMAL(30,10)) AS JSON)",
)


def _json(rng: Random) -> str:
    if rng.random() < 0.2:
        return rng.choice(_JSON_EXPRESSIONS)
    return f"CAST({quoted(json.dumps(_document(rng, 3)))} AS JSON)"


def _geometry(rng: Random) -> str:
    a, b, c, d = (rng.randint(-80, 80) for _ in range(4))
    text = rng.choice([
        f"POINT({a} {b})", f"LINESTRING({a} {b}, {c} {d + 100})", f"MULTIPOINT({a} {b}, {c} {d})",
        "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 2 1, 2 2, 1 1))", f"GEOMETRYCOLLECTION(POINT({a} {b}))",
    ])  # fmt: skip
    return f"ST_GeomFromText('{text}', {rng.choice([0, 3857])})"


def _point(rng: Random) -> str:
    return f"ST_GeomFromText('POINT({rng.randint(-80, 80)} {rng.random()})')"


def _vector(rng: Random) -> str:
    return f"STRING_TO_VECTOR('[{rng.random()}, {rng.randint(-9, 9)}, -1e-20]')"


def _hex(rng: Random, length: int) -> str:
    return "".join(rng.choice("0123456789abcdef") for _ in range(length))


def _uuid(rng: Random) -> str:
    return "'" + "-".join(_hex(rng, size) for size in (8, 4, 4, 4, 12)) + "'"


def _inet4(rng: Random) -> str:
    return "'" + ".".join(str(rng.randint(0, 255)) for _ in range(4)) + "'"


def _inet6(rng: Random) -> str:
    return rng.choice(["'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:192.0.2.128'", f"'fe80::{_hex(rng, 4)}'"])


def _integers() -> list[Kind]:
    wider = {"TINYINT": "INT", "SMALLINT": "BIGINT", "MEDIUMINT": "INT", "INT": "BIGINT", "BIGINT": None}
    bits = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
    kinds = []
    for name, width in bits.items():
        kinds.append(Kind(name, _integer(width, False), key=True, wider=wider[name]))
        unsigned = f"{wider[name]} UNSIGNED" if wider[name] else None
        kinds.append(Kind(f"{name} UNSIGNED", _integer(width, True), key=True, wider=unsigned))
    return kinds


def _charset(name: str) -> str:
    return f"CHARACTER SET {name}"


KINDS: tuple[Kind, ...] = (
    *_integers(),
    Kind("TINYINT(1)", _integer(8, False)),
    Kind("INT(5) ZEROFILL", _integer(32, True)),
    Kind("DECIMAL(10,2)", _decimal(10, 2), key=True, wider="DECIMAL(20,4)"),
    Kind("DECIMAL(65,30)", _decimal(65, 30)),
    Kind("DECIMAL(38,0)", _decimal(38, 0), wider="DECIMAL(38,0)"),
    Kind("DECIMAL(39,20)", _decimal(39, 20)),
    Kind("DECIMAL(30,30)", _decimal(30, 30)),
    Kind("DECIMAL(5)", _decimal(5, 0), wider="DECIMAL(18,0)"),
    Kind("FLOAT", _real("3.4028234e38"), wider="DOUBLE"),
    Kind("DOUBLE", _real("1.7976931348623157e308")),
    Kind("DECIMAL(10,2) UNSIGNED", lambda rng: _decimal(10, 2)(rng).lstrip("-")),
    Kind("DOUBLE UNSIGNED", lambda rng: repr(rng.choice([0.0, 0.1, rng.uniform(0, 1e6)]))),
    Kind("BIT(1)", _bits(1)),
    Kind("BIT(7)", _bits(7)),
    Kind("BIT(20)", _bits(20)),
    Kind("BIT(64)", _bits(64)),
    Kind("YEAR", lambda rng: str(rng.choice([0, 1901, 2155, rng.randint(1901, 2155)]))),
    Kind("DATE", _date),
    Kind("DATE", _valid_date, key=True),
    *(Kind(f"DATETIME({digits})", _datetime(digits)) for digits in (0, 1, 3, 6)),
    Kind("DATETIME(5)", _datetime(5, valid=True), key=True),
    *(Kind(f"TIMESTAMP({digits}) NULL", _timestamp(digits)) for digits in (0, 2, 3, 6)),
    *(Kind(f"TIME({digits})", _time(digits), key=digits == 3) for digits in (0, 1, 2, 3, 4, 5, 6)),
    Kind("CHAR(10)", _text("utf8mb4", 10), key=True, wider="CHAR(30)"),
    Kind("CHAR(255)", _text("utf8mb4", 40)),
    Kind(f"CHAR(12) {_charset('latin1')}", _text("latin1", 12), key=True),
    Kind("VARCHAR(20)", _text("utf8mb4", 20), key=True, wider="VARCHAR(400)"),
    Kind("VARCHAR(300)", _text("utf8mb4", 90), wider="TEXT"),
    *(Kind(f"VARCHAR(30) {_charset(name)}", _text(name, 12)) for name in _LETTERS),
    Kind(f"TEXT {_charset('gbk')}", _text("gbk", 60)),
    Kind(f"CHAR(9) {_charset('sjis')}", _text("sjis", 9)),
    Kind(f"CHAR(9) {_charset('utf16')}", _text("utf16", 9)),
    Kind("VARCHAR(20) COLLATE utf8mb4_bin", _text("utf8mb4", 20), key=True),
    Kind("TINYTEXT", _text("utf8mb4", 50)),
    Kind("TEXT", _text("utf8mb4", 400)),
    Kind("MEDIUMTEXT", _text("utf8mb4", 700)),
    Kind("LONGTEXT", _text("latin1", 300)),
    Kind("BINARY(8)", _bytes(8, fixed=True), key=True),
    Kind("BINARY(255)", _bytes(255, fixed=True)),
    Kind("VARBINARY(16)", _bytes(16), key=True, wider="VARBINARY(600)"),
    Kind("VARBINARY(300)", _bytes(300)),
    Kind("TINYBLOB", _bytes(255)),
    Kind("BLOB", _bytes(2000)),
    Kind("MEDIUMBLOB", _bytes(70000)),
    Kind("LONGBLOB", _bytes(300)),
    Kind("ENUM('a','b','it''s','é')", _one_of("a", "b", "it's", "é", "none of them"), key=True),
    Kind(f"ENUM('é','x','ß') {_charset('latin1')}", _one_of("é", "x", "ß")),
    Kind(f"ENUM('中','x') {_charset('gbk')}", _one_of("中", "x")),
    Kind("SET('a','b','c d','é')", _some_of("a", "b", "c d", "é")),
    Kind(f"SET({','.join(repr(f's{i}') for i in range(64))})", _some_of(*(f"s{i}" for i in range(64)))),
    Kind("JSON", _json, flavor="mysql"),
    Kind("JSON", lambda rng: quoted(json.dumps(_document(rng, 2))), flavor="mariadb"),
    Kind("GEOMETRY", _geometry),
    Kind("POINT", _point),
    Kind("VECTOR(3)", _vector, flavor="mysql"),
    Kind("UUID", _uuid, flavor="mariadb"),
    Kind("INET4", _inet4, flavor="mariadb"),
    Kind("INET6", _inet6, flavor="mariadb"),
)


def kinds_of(flavor: str) -> list[Kind]:
    """The column types of a server."""
    return [kind for kind in KINDS if kind.flavor in (None, flavor)]
