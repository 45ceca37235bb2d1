"""Whether a new definition of a column leaves the values of rows already there certain: one closed list. Pure.

`uncertain_fill` and `unsure_in_sinks` say the same of a column that is added with a constant.

The log has the statement, not what the server made of the rows. What is not on this list is uncertain, and the table is
re-snapshotted. On it is, besides what `cdc.types.certain` has for types alone:

- of numbers to another family only integers to DECIMAL and, but for BIGINT UNSIGNED, to DOUBLE: not every sink converts
  the others as the servers do; BOOLEAN, which is BIT(1) or TINYINT(1), stays what it is;
- a number that is not UNSIGNED to text: ZEROFILL, which pads the text, makes a column UNSIGNED, and nothing else tells;
- under a strict sql_mode: a smaller range or length, numbers as text of fewer characters, and NOT NULL, as the server
  refuses the statement where a value does not fit (MySQL manual, "Strict SQL Mode"); but NULLs of a TIMESTAMP become
  the time of the statement in any mode, and blanks at the end of a text that is converted are cut in any;
- numbers in a DECIMAL, FLOAT or DOUBLE that is UNSIGNED now likewise: without a strict mode negative ones become 0;
- text and bytes in a smaller class (TEXT to TINYTEXT) likewise, and in one that holds what the old type could at most;
- FLOAT and DOUBLE but for a new number of digits, to which any session rounds;
- text in another character set that has every character of the old one, and labels that stay.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation

from cdc.schema import DataType, Kind
from cdc.types.certain import LongerBytes, LongerText, OutsideOf, uncertain
from cdc.types.kinds import RANGES, REALS, TEXTS
from connectors.mysql.ddl.defaults import is_bytes
from connectors.mysql.ddl.resolve import LOB_BYTES
from connectors.mysql.ddl.rewritten import cuts_blanks, rewritten_text
from connectors.mysql.table import MySqlColumn, data_type
from connectors.shared.ddl.charsets import max_bytes
from connectors.shared.ddl.statements import Default, DefaultKind
from connectors.shared.ddl.types import STORED_TEXT

_OTHER_NUMBERS = {
    (Kind.BIGINT_UNSIGNED, Kind.DOUBLE),
    (Kind.DECIMAL, Kind.DOUBLE),
    *((Kind.DECIMAL, kind) for kind in RANGES),
}
_SIGNED = frozenset({*RANGES, *REALS, Kind.DECIMAL})
_REFUSED_WHEN_STRICT = OutsideOf | LongerText | LongerBytes
_SPATIAL = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_GEOMETRIES = ("geometrycollection", *_SPATIAL)
_OTHERS = dict.fromkeys(("json", "vector", *_GEOMETRIES), 2**32 - 1)
_MOMENTS = ("datetime", "timestamp", "time")
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_DIGITS = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_REAL = re.compile(rf"{_DIGITS.pattern}(?:[eE][-+]?\d+)?")
_PARTS_OF_UTF8MB4, _UTF8MB4 = ("ascii", "utf8", "utf8mb3"), "utf8mb4"
"""Character sets whose characters take as many bytes in UTF-8."""
_EXACT = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_FRACTION = re.compile(r"\.(\d+)$")
_DAYS = re.compile(r"-?\d+\s+\d+")
"""Days and hours without a colon, which MySQL takes for seconds."""
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_YEARS = ("1901", "2155")


def uncertain_column(old: MySqlColumn, new: MySqlColumn, *, strict: bool, tinyint1_as_boolean: bool = False) -> str:
    """Why values of the column may be others than before in a way that the log does not tell; empty when none are.

    `strict`: the statement ran under STRICT_TRANS_TABLES or STRICT_ALL_TABLES. `tinyint1_as_boolean`: as in
    `data_type`; what a TINYINT(1) has besides 0 and 1 is not in the sink then.
    """
    unseen = unseen_in_sinks(old, new, strict=strict, tinyint1_as_boolean=tinyint1_as_boolean)
    if unseen:
        return unseen
    before, after = (data_type(column, tinyint1_as_boolean=tinyint1_as_boolean) for column in (old, new))
    found = None if before == after and old.type == new.type else uncertain(after, before)
    refused = strict and found is not None and isinstance(found.rows, _REFUSED_WHEN_STRICT)
    if found is None or (refused and not cuts_blanks(old, new)):
        return ""
    return f"column {old.name}: {found.reason}"


def unseen_in_sinks(old: MySqlColumn, new: MySqlColumn, *, strict: bool, tinyint1_as_boolean: bool = False) -> str:
    """The reason of `uncertain_column` that types alone do not show: no sink looks for such rows then."""
    reason = rewritten_text(old, new)
    if reason:
        return f"{reason} may have changed column {old.name}"
    if old.nullable and not new.nullable and (not strict or new.type == "timestamp"):
        return f"NULLs of column {old.name}, which is NOT NULL now, have become other values"
    if new.type in ("float", "double") and new.scale is not None and not _same_type(old, new):
        return f"values of column {old.name} are rounded to {new.scale} digits"
    cut = new.type in LOB_BYTES and _most_bytes(old, new.charset) > LOB_BYTES[new.type]
    if cut and (not strict or cuts_blanks(old, new)):
        return f"values of column {old.name} may have been cut to {LOB_BYTES[new.type]} bytes"
    before, after = (data_type(column, tinyint1_as_boolean=tinyint1_as_boolean) for column in (old, new))
    if not strict and new.unsigned and not old.unsigned and after.kind not in RANGES and before.kind in _SIGNED:
        return f"negative numbers of column {old.name}, which is UNSIGNED now, have become 0"
    if before == after and old.type == new.type:
        return ""
    padded = old.unsigned or old.type == "year"
    if padded and after.kind in TEXTS and (before.kind in RANGES or before.kind is Kind.DECIMAL):
        return f"the server spells the numbers of column {old.name} as text, perhaps with zeros in front"
    if not strict and after.kind in TEXTS and after.length is not None and _most_digits(before) > after.length:
        return f"numbers of column {old.name} may have been cut to {after.length} characters"
    if not strict and new.type == "mediumint" and before.kind in RANGES and not _holds(new, old):
        return f"numbers of column {old.name} may have been cut to the range of MEDIUMINT"
    if "year" in (old.type, new.type) and old.type != new.type and not (after.kind in RANGES and old.type == "year"):
        return f"column {old.name} is converted to {new.type.upper()}"
    if "bit" in (old.type, new.type) and old.type != new.type and (is_bytes(old.type) or is_bytes(new.type)):
        return f"column {old.name} is bits as a number on the one side and bytes on the other"
    if old.type == new.type == "bit" and 1 not in (old.length, new.length):
        return f"column {old.name} has bits in another number of bytes, which are shifted"
    if _fewer_digits(old, new):
        return f"times of column {old.name} are rounded or cut to {new.length or 0} digits, as server and session do"
    booleans = (before.kind is Kind.BOOLEAN) != (after.kind is Kind.BOOLEAN)
    if booleans or (before.kind, after.kind) in _OTHER_NUMBERS:
        return f"values of column {old.name} are converted to {after}"
    return ""


def _holds(new: MySqlColumn, old: MySqlColumn) -> bool:
    """Whether a MEDIUMINT, which sinks keep as an integer of 32 bits, has every number of another integer column."""
    if old.type == new.type:
        return old.unsigned == new.unsigned
    return old.type in ("tinyint", "smallint", "year") and (old.unsigned or not new.unsigned)


def _same_type(old: MySqlColumn, new: MySqlColumn) -> bool:
    return (old.type, old.length, old.scale) == (new.type, new.length, new.scale)


def _fewer_digits(old: MySqlColumn, new: MySqlColumn) -> bool:
    """Whether digits of a time's second may go: MySQL rounds, MariaDB cuts, and a sql_mode of each the other way."""
    if new.type not in _MOMENTS:
        return False
    text = old.type in ("char", "varchar", *LOB_BYTES)
    return text or (old.type in _MOMENTS and (new.length or 0) < (old.length or 0))


def _most_digits(kind: DataType) -> int:
    """The most characters a whole or decimal number takes as text, with sign and point; 0 for other types."""
    if kind.kind in RANGES:
        return max(len(str(end)) for end in RANGES[kind.kind])
    if kind.kind is not Kind.DECIMAL:
        return 0
    digits, scale = kind.length or 10, kind.scale or 0
    return 1 + digits + (scale > 0) + (digits == scale)


def _most_bytes(column: MySqlColumn, charset: str | None) -> int:
    """The most bytes a value takes as text of a character set; at least so many where it is not known exactly."""
    own = column.charset or "utf8mb4"
    stays = (
        charset is None or charset == own or (own in _PARTS_OF_UTF8MB4 and charset in (*_PARTS_OF_UTF8MB4, _UTF8MB4))
    )
    growth = 1 if stays else max_bytes(charset or own)
    if column.type in LOB_BYTES:
        return LOB_BYTES[column.type] * growth
    if column.type in ("char", "varchar"):
        return (column.length or 0) * (max_bytes(own) if stays else growth)
    if column.type in ("binary", "varbinary"):
        return column.length or 0
    if column.type in ("enum", "set"):
        return sum(4 * len(label) + 1 for label in column.labels)
    return _OTHERS.get(column.type, 80)


def uncertain_fill(column: MySqlColumn, default: Default | None, fill: str | None) -> str:
    """Why the log does not tell what rows already there got for an added column; empty when it does.

    Args:
        default: as the statement has it, None when it has none.
        fill: the value it comes to, None for NULL.
    """
    other = f"the default of column {column.name} is no value of its type, and servers make another of it"
    if fill is None:
        if default is not None and not is_value(fill, default, column):
            return other
        empty = (column.type in _GEOMETRIES or column.type == "vector") and not (column.nullable or column.generated)
        return f"rows already there have an empty value of column {column.name}" if empty and default is None else ""
    if column.type == "timestamp" and default is not None and not fill.startswith("0000-00-00"):
        return f"the default of column {column.name} is a time in the session's time zone"
    written = "" if default is None else default.text.strip()
    days = column.type == "time" and _DAYS.fullmatch(written)
    if days or (column.type in STORED_TEXT and not STORED_TEXT[column.type].fullmatch(fill)):
        return f"the default of column {column.name} is a time in a spelling of its own"
    if column.type in STORED_TEXT and _loses(written, column):
        return f"the default of column {column.name} has more digits than its type, which servers round or cut"
    if default is not None and _is_odd_number(default, column):
        return f"the default of column {column.name} is a number in a spelling of its own"
    if column.type == "float" and column.scale is None and written and not _same_single(written, fill):
        return f"the default of column {column.name} is shown with fewer digits than it has"
    return "" if default is None or is_value(fill, default, column) else other


def unsure_in_sinks(column: MySqlColumn, fill: str | None) -> str:
    """Why not every sink can be told what rows already there got for an added column; empty when each can.

    StarRocks has no defaults for bytes and JSON, and neither Doris for JSON; releases of Doris differ in how they read
    a backslash in a default, or a quote that has to be escaped.
    """
    if fill is None:
        return ""
    if is_bytes(column.type) or column.type == "json" or (column.type == "bit" and column.length not in (None, 1)):
        return f"not every sink takes a default of column {column.name}, which is {column.type.upper()}"
    if "\\" in fill or "\0" in fill or ("'" in fill and '"' in fill):
        return f"not every sink reads the default of column {column.name} as it is, with its quotes or backslashes"
    return ""


def _loses(written: str, column: MySqlColumn) -> bool:
    """Whether a time is written with digits that the type does not keep; a DATE keeps no time at all."""
    if column.type == "date":
        clock = re.search(r"[T\s]([\d:.]+)$", written)
        return clock is not None and any(digit in "123456789" for digit in clock[1])
    found = _FRACTION.search(written)
    return found is not None and bool(found[1][column.length or 0 :].strip("0"))


def _is_odd_number(default: Default, column: MySqlColumn) -> bool:
    """Whether a default is a number that servers read, or spell, otherwise than it is written: by way of a DOUBLE, as
    a year of the century, without zeros in front. MariaDB takes `x'31'` for the text 1, and `0x31` for 49."""
    if default.kind is DefaultKind.HEX:
        return column.type in (*_EXACT, "float", "double", "year")
    if default.kind not in (DefaultKind.NUMBER, DefaultKind.STRING):
        return False
    text = default.text.strip()
    if column.type.endswith(("char", "text")):
        return default.kind is DefaultKind.NUMBER and (not _PLAIN_NUMBER.fullmatch(text) or text == "-0")
    if column.type == "year":
        return not text.isdigit() or len(text) == 3
    if column.type == "bit":
        return default.kind is DefaultKind.NUMBER and not text.isdigit()
    if column.type in ("float", "double"):
        return not _REAL.fullmatch(text)
    return column.type in _EXACT and not _DIGITS.fullmatch(text)


def _same_single(written: str, shown: str) -> bool:
    """Whether both texts are the same FLOAT; false for what is none, which a server that is not strict changed."""
    try:
        return struct.pack("<f", float(written)) == struct.pack("<f", float(shown))
    except (ValueError, OverflowError):
        return False


def is_value(fill: str | None, default: Default, column: MySqlColumn) -> bool:
    """Whether the value that a default comes to, None for NULL, is one that the column keeps as it is.

    A server that is not strict makes another value of one that is none, as it does in any session of a number for a
    label, which it takes as the label's place.
    """
    kind = column.type
    if fill is None:
        return column.nullable or default.kind is not DefaultKind.NULL
    if kind in ("enum", "set"):
        return _is_label(fill, default, column)
    if kind in ("char", "varchar"):
        return len(fill) <= (column.length or 0)
    if kind == "year":
        return fill == "0000" or (fill.isdigit() and _YEARS[0] <= fill <= _YEARS[1])
    if kind in _BITS or kind in ("decimal", "float", "double"):
        return _is_in_range(fill, column)
    return True


def _is_label(fill: str, default: Default, column: MySqlColumn) -> bool:
    if default.bracketed and default.kind is not DefaultKind.STRING:
        return False
    if column.type == "enum":
        return fill in column.labels
    return len(fill.split(",")) == len({label.lower().rstrip(" ") for label in default.text.split(",")})


def _is_in_range(fill: str, column: MySqlColumn) -> bool:
    try:
        number = Decimal(fill)
    except InvalidOperation:
        return False
    if not math.isfinite(number) or (column.unsigned and number < 0):
        return False
    if column.type in _BITS:
        top = 1 << (_BITS[column.type] - (not column.unsigned))
        return -top <= number < top
    return column.scale is None or abs(number) < 10 ** ((column.length or 0) - column.scale)
