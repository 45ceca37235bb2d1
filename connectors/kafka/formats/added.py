"""Columns that an ALTER TABLE adds, and what rows that are there get in them: constants of one closed list. Pure.

Certain are NULL, and as DEFAULT (or, for NOT NULL without one, as the value that the server puts there) whole numbers,
DECIMAL and FLOAT that are not rounded, text without backslashes, a member of an ENUM as its definition spells it, and
DATE, DATETIME and TIME in full without a fraction. What is not on the list is told, and not guessed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

from cdc.evolution.certain import RANGES, TEXTS
from cdc.schema import DataType, Kind
from connectors.kafka.formats.clauses import PART, clauses, plain

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "bool", "boolean"})
_DECIMALS = frozenset({"decimal", "numeric", "dec", "fixed"})
_REALS = frozenset({"double", "real", "float"})
_NUMBERS = INTEGERS | _DECIMALS | _REALS
_WORDS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})

_NO_COLUMN = frozenset({"index", "key", "unique", "primary", "constraint", "fulltext", "spatial", "foreign", "check"})
_NO_TYPE = frozenset({"index", "key", "for", "versioning"})
"""What stands behind a word that is no name: VECTOR INDEX, PERIOD FOR SYSTEM_TIME, SYSTEM VERSIONING."""
_ADD = re.compile(rf"ADD\s+(COLUMN\s+)?(IF\s+NOT\s+EXISTS\s+)?{PART}\s+(\w+)\s*(\([^()]*\))?(.*)", re.I | re.S)
_ADD_SEVERAL = re.compile(r"ADD\s+(?:COLUMN\s+)?(IF\s+NOT\s+EXISTS\s+)?\((.*)\)", re.I | re.S)
_DEFAULT = r"DEFAULT\s+(?P<default>'\d+'|[-+]?\d+(?:\.\d+)?|NULL|TRUE|FALSE)(?![\w(.'])"
_ATTRIBUTES = re.compile(
    rf"(?:\s*(?:{_DEFAULT}|(?P<filled>NOT\s+NULL)\b|(?P<null>NULL)\b|UNSIGNED\b|SIGNED\b|ZEROFILL\b|PRECISION\b|"
    rf"COMMENT\s*'\d+'|CHARACTER\s+SET\s+\w+|CHARSET\s+\w+|COLLATE\s+\w+|FIRST\b|AFTER\s+{PART}|UNIQUE(?:\s+KEY)?\b|"
    rf"(?:IN)?VISIBLE\b))*\s*",
    re.I | re.S,
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_CLOCKS = {"date": date.fromisoformat, "datetime": datetime.fromisoformat, "time": time.fromisoformat}
_SHAPES = {"date": r"\d{4}-\d\d-\d\d", "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "time": r"\d\d:\d\d:\d\d"}
_COMPUTED = "the server's default for it is no constant that is certain here"


@dataclass(frozen=True, slots=True)
class Added:
    """A column that is new.

    Attributes:
        kind: the word of its type in the statement, in small letters.
        fill: the text of what rows that are there get; None for NULL.
        unsure: why that is not certain; empty when it is.
        if_new: it may have been there already.
    """

    name: str
    kind: str
    fill: str | None = None
    unsure: str = ""
    if_new: bool = False


def added(clause: str, literals: Sequence[str]) -> Iterator[Added]:
    """The columns that one clause adds; none of an index or a constraint. Both are as `without_noise` gives them."""
    several = _ADD_SEVERAL.fullmatch(clause)
    parts = [f"ADD {several[1] or ''}{part}" for part in clauses(several[2])] if several else [clause]
    for part in parts:
        found = _ADD.fullmatch(part)
        if found is None or (not found[1] and found[3].lower() in _NO_COLUMN):
            continue
        kind = found[4].lower()
        if kind not in _NO_TYPE:
            fill, unsure = _fill(kind, found[5] or "", found[6], literals)
            yield Added(plain(found[3]), kind, fill, unsure, bool(found[2]))


def _fill(kind: str, inside: str, rest: str, literals: Sequence[str]) -> tuple[str | None, str]:
    """The value of rows that are there, or why it is not certain."""
    found = _ATTRIBUTES.fullmatch(rest)
    if found is None or kind == "serial":
        return None, _COMPUTED
    default = found["default"] or ""
    if default.upper() == "NULL" or not (default or found["filled"]):
        # By an old server's settings a TIMESTAMP that says nothing of NULL is NOT NULL.
        sure = bool(default or found["null"]) or kind != "timestamp"
        return None, "" if sure else _COMPUTED
    labels = [_text(literals, part.strip()) for part in inside.strip("()").split(",")] if kind == "enum" else []
    if not default:
        text: str | None = "0" if kind in _NUMBERS else "" if kind in _WORDS else labels[0] if labels else None
    elif default.startswith("'"):
        text = _text(literals, default)
    else:
        text = {"TRUE": "1", "FALSE": "0"}.get(default.upper(), default)
    value = None if text is None else _value(kind, inside, text, labels, written=default.startswith("'"))
    return value, _COMPUTED if value is None else ""


def _text(literals: Sequence[str], mark: str) -> str | None:
    """The text of a literal; None with characters that servers and sinks may read differently."""
    written = literals[int(mark.strip("'"))]
    quote, inner = written[0], written[1:-1]
    inner = inner.replace(quote * 2, quote)
    return None if "\\" in inner or "\0" in inner or ("'" in inner and '"' in inner) else inner


def _value(kind: str, inside: str, text: str, labels: Sequence[str | None], *, written: bool) -> str | None:
    """The text as a value of the type; None where the server may make another one of it."""
    if kind in _NUMBERS:
        return _number(kind, inside, text)
    if kind in _WORDS:
        # A number is spelled by the server.
        return (text.rstrip(" ") if kind == "char" else text) if written or not text or text.isdigit() else None
    if kind == "enum":
        return text if text in labels else None
    if kind not in _CLOCKS or not re.fullmatch(_SHAPES[kind], text):
        return None
    try:
        _CLOCKS[kind](text)
    except ValueError:
        return None
    return text


def _number(kind: str, inside: str, text: str) -> str | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if kind in INTEGERS:
        return str(int(value)) if value == value.to_integral_value() else None
    sizes = [int(part) for part in inside.strip("()").split(",") if part.strip().isdigit()]
    if kind in _DECIMALS:
        return _scaled(value, sizes[0] if sizes else 10, sizes[1] if len(sizes) > 1 else 0)
    return text.lstrip("+") if not sizes and (kind != "float" or _is_single(value)) else None


def _scaled(value: Decimal, precision: int, scale: int) -> str | None:
    """With as many digits as the type has; None for a number that it does not hold as it is."""
    try:
        found = value.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    return f"{found:f}" if found == value and abs(value) < Decimal(10) ** (precision - scale) else None


def _is_single(value: Decimal) -> bool:
    try:
        return Decimal(struct.unpack("f", struct.pack("f", float(value)))[0]) == value
    except OverflowError:
        return False


def as_value(data_type: DataType, kind: str, fill: str) -> str | None:
    """The value that rows get in a column of this type, as its default's text; None where that is not certain.

    Args:
        kind, fill: as in `Added`.
    """
    scale, length = data_type.scale or 0, data_type.length
    if data_type.kind in RANGES:
        low, high = RANGES[data_type.kind]
        return fill if kind in _NUMBERS and "." not in fill and low <= int(fill) <= high else None
    if data_type.kind is Kind.BOOLEAN:
        return fill if kind in INTEGERS and fill in ("0", "1") else None
    if data_type.kind is Kind.DECIMAL:
        return _scaled(Decimal(fill), length or 10, scale) if kind in _NUMBERS else None
    if data_type.kind is Kind.DOUBLE:
        return fill if kind in _NUMBERS else None
    if data_type.kind is Kind.FLOAT:
        return fill if kind in _NUMBERS and _is_single(Decimal(fill)) else None
    if data_type.kind in TEXTS:
        return fill if kind in _WORDS | {"enum"} and (length is None or len(fill) <= length) else None
    wanted = {Kind.DATE: "date", Kind.TIMESTAMP: "datetime", Kind.TIME: "time"}.get(data_type.kind)
    if wanted is None or kind != wanted:
        return None
    return f"{fill}.{'0' * length}" if length and kind != "date" else fill
