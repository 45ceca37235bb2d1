"""Decides whether a new definition of a column leaves the values of existing rows certain: one closed list. Pure.

`certain_default` decides the same for a column added with a constant. The log has the statement,
but not its effect on the rows. Everything that is not on this list is uncertain, and the table is re-snapshotted. On it
are, besides what `cdc.types.certain` allows by types alone:

- of numbers converted to another family only integers to DECIMAL and, except BIGINT UNSIGNED, to DOUBLE: not every sink
converts the others as the servers do; BOOLEAN, which is BIT(1) or TINYINT(1), must stay as it is;
- a number that is not UNSIGNED to text: ZEROFILL, which pads the text, makes a column UNSIGNED and shows nowhere else;
- under a strict sql_mode: a smaller range or length, numbers as text of fewer characters, and NOT NULL, as the server
refuses the statement if a value does not fit (MySQL manual, "Strict SQL Mode"); but NULLs of a TIMESTAMP become the
time of the statement in any mode, and trailing blanks of converted text are cut in any;
- likewise numbers in a DECIMAL, FLOAT or DOUBLE that becomes UNSIGNED: without a strict mode negative ones become 0;
- likewise text and bytes in a smaller class (TEXT to TINYTEXT), and in one that holds the old type's maximum;
- FLOAT and DOUBLE, except for a new number of digits, to which any session rounds;
- text in another character set that has every character of the old one, or under a strict sql_mode those up to U+FFFF,
and labels that stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema import DataType, Kind
from cdc.types.certain import LongerBytes, LongerText, OutsideOf, uncertain
from cdc.types.kinds import RANGES, REALS, TEXTS
from connectors.mysql.ddl.defaults import is_bytes
from connectors.mysql.ddl.resolve import LOB_BYTES
from connectors.mysql.ddl.rewritten import cuts_blanks, rewritten_text
from connectors.mysql.table import GEOMETRIES, MySqlColumn, data_type
from connectors.shared.ddl.charsets import max_bytes

_OTHER_NUMBERS = {
    (Kind.BIGINT_UNSIGNED, Kind.DOUBLE),
    (Kind.DECIMAL, Kind.DOUBLE),
    *((Kind.DECIMAL, kind) for kind in RANGES),
}
_SIGNED = frozenset({*RANGES, *REALS, Kind.DECIMAL})
_REFUSED_WHEN_STRICT = OutsideOf | LongerText | LongerBytes
_OTHERS = dict.fromkeys(("json", "vector", *GEOMETRIES), 2**32 - 1)
_MOMENTS = ("datetime", "timestamp", "time")
_PARTS_OF_UTF8MB4, _UTF8MB4 = ("ascii", "utf8", "utf8mb3"), "utf8mb4"
"""Character sets whose characters take the same number of bytes in UTF-8."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A new definition of a column. `before` and `after` are the types that sinks have for it."""

    old: MySqlColumn
    new: MySqlColumn
    before: DataType
    after: DataType
    strict: bool

    @property
    def types(self) -> tuple[str, str]:
        """The server's types before and after."""
        return self.old.type, self.new.type

    @property
    def changes_type(self) -> bool:
        return self.before != self.after or self.old.type != self.new.type


def uncertain_column(old: MySqlColumn, new: MySqlColumn, *, strict: bool, tinyint1_as_boolean: bool = False) -> str:
    """Return why values of the column may have changed in a way the log does not show; empty when none have.

    `strict`: the statement ran under STRICT_TRANS_TABLES or STRICT_ALL_TABLES. `tinyint1_as_boolean`: as in
    `data_type`; the sink then lacks values of a TINYINT(1) other than 0 and 1.
    """
    by_rules = uncertain_beyond_types(old, new, strict=strict, tinyint1_as_boolean=tinyint1_as_boolean)
    return by_rules or uncertain_by_types(old, new, strict=strict, tinyint1_as_boolean=tinyint1_as_boolean)


def uncertain_by_types(old: MySqlColumn, new: MySqlColumn, *, strict: bool, tinyint1_as_boolean: bool = False) -> str:
    """Return why the sinks' types leave values of the column uncertain; empty when they do not.

    `strict` and `tinyint1_as_boolean` are as in `uncertain_column`, of which this is the part after
    `uncertain_beyond_types`.
    """
    before, after = (data_type(column, tinyint1_as_boolean=tinyint1_as_boolean) for column in (old, new))
    found = None if before == after and old.type == new.type else uncertain(after, before)
    refused = strict and found is not None and isinstance(found.rows, _REFUSED_WHEN_STRICT)
    if found is None or (refused and not cuts_blanks(old, new)):
        return ""
    return f"column {old.name}: {found.reason}"


def uncertain_beyond_types(
    old: MySqlColumn, new: MySqlColumn, *, strict: bool, tinyint1_as_boolean: bool = False
) -> str:
    """Return the reason of `uncertain_column` that types alone do not show, so that no sink looks for such rows."""
    before, after = (data_type(column, tinyint1_as_boolean=tinyint1_as_boolean) for column in (old, new))
    change = _Change(old, new, before, after, strict)
    checks = (*_CHECKS_OF_ANY_CHANGE, *(_CHECKS_OF_A_NEW_TYPE if change.changes_type else ()))
    return next((reason for check in checks if (reason := check(change))), "")


def _text_rewritten(change: _Change) -> str:
    reason = rewritten_text(change.old, change.new, strict=change.strict)
    return f"{reason} may have changed column {change.old.name}" if reason else ""


def _nulls_replaced(change: _Change) -> str:
    old, new = change.old, change.new
    if old.nullable and not new.nullable and (not change.strict or new.type == "timestamp"):
        return f"NULLs of column {old.name}, which is NOT NULL now, have become other values"
    return ""


def _rounded_to_scale(change: _Change) -> str:
    old, new = change.old, change.new
    if new.type in ("float", "double") and new.scale is not None and not _same_type(old, new):
        return f"values of column {old.name} are rounded to {new.scale} digits"
    return ""


def _cut_to_bytes(change: _Change) -> str:
    old, new = change.old, change.new
    too_long = new.type in LOB_BYTES and _most_bytes(old, new.charset) > LOB_BYTES[new.type]
    if too_long and (not change.strict or cuts_blanks(old, new)):
        return f"values of column {old.name} may have been cut to {LOB_BYTES[new.type]} bytes"
    return ""


def _negatives_zeroed(change: _Change) -> str:
    old, new = change.old, change.new
    unsigned_now = new.unsigned and not old.unsigned and change.after.kind not in RANGES
    if not change.strict and unsigned_now and change.before.kind in _SIGNED:
        return f"negative numbers of column {old.name}, which is UNSIGNED now, have become 0"
    return ""


def _padded_with_zeros(change: _Change) -> str:
    old, before = change.old, change.before.kind
    number = before in RANGES or before is Kind.DECIMAL
    if number and change.after.kind in TEXTS and (old.unsigned or old.type == "year"):
        return f"the server spells the numbers of column {old.name} as text, perhaps with zeros in front"
    return ""


def _digits_cut(change: _Change) -> str:
    length = change.after.length if change.after.kind in TEXTS else None
    if not change.strict and length is not None and _most_digits(change.before) > length:
        return f"numbers of column {change.old.name} may have been cut to {length} characters"
    return ""


def _cut_to_mediumint(change: _Change) -> str:
    old, new = change.old, change.new
    if not change.strict and new.type == "mediumint" and change.before.kind in RANGES and not _holds(new, old):
        return f"numbers of column {old.name} may have been cut to the range of MEDIUMINT"
    return ""


def _year_converted(change: _Change) -> str:
    old, new = change.types
    year_to_integer = old == "year" and change.after.kind in RANGES
    if "year" in change.types and old != new and not year_to_integer:
        return f"column {change.old.name} is converted to {new.upper()}"
    return ""


def _bits_to_or_from_bytes(change: _Change) -> str:
    old, new = change.types
    if "bit" in change.types and old != new and (is_bytes(old) or is_bytes(new)):
        return f"column {change.old.name} is bits as a number on the one side and bytes on the other"
    return ""


def _bits_shifted(change: _Change) -> str:
    if change.types == ("bit", "bit") and 1 not in (change.old.length, change.new.length):
        return f"column {change.old.name} has bits in another number of bytes, which are shifted"
    return ""


def _fraction_rounded(change: _Change) -> str:
    old, new = change.old, change.new
    if _fewer_digits(old, new):
        return f"times of column {old.name} are rounded or cut to {new.length or 0} digits, as server and session do"
    return ""


def _converted(change: _Change) -> str:
    before, after = change.before.kind, change.after.kind
    to_or_from_boolean = (before is Kind.BOOLEAN) != (after is Kind.BOOLEAN)
    if to_or_from_boolean or (before, after) in _OTHER_NUMBERS:
        return f"values of column {change.old.name} are converted to {change.after}"
    return ""


_CHECKS_OF_ANY_CHANGE = (_text_rewritten, _nulls_replaced, _rounded_to_scale, _cut_to_bytes, _negatives_zeroed)
_CHECKS_OF_A_NEW_TYPE = (
    _padded_with_zeros,
    _digits_cut,
    _cut_to_mediumint,
    _year_converted,
    _bits_to_or_from_bytes,
    _bits_shifted,
    _fraction_rounded,
    _converted,
)


def _holds(new: MySqlColumn, old: MySqlColumn) -> bool:
    """Return whether a MEDIUMINT, a 32-bit integer in sinks, holds every number of another integer column."""
    if old.type == new.type:
        return old.unsigned == new.unsigned
    return old.type in ("tinyint", "smallint", "year") and (old.unsigned or not new.unsigned)


def _same_type(old: MySqlColumn, new: MySqlColumn) -> bool:
    return (old.type, old.length, old.scale) == (new.type, new.length, new.scale)


def _fewer_digits(old: MySqlColumn, new: MySqlColumn) -> bool:
    """Return whether fractional digits may be lost: MySQL rounds, MariaDB truncates, a sql_mode of each reverses it."""
    if new.type not in _MOMENTS:
        return False
    text = old.type in ("char", "varchar", *LOB_BYTES)
    return text or (old.type in _MOMENTS and (new.length or 0) < (old.length or 0))


def _most_digits(kind: DataType) -> int:
    """Return the maximum characters of a whole or decimal number as text, with sign and point; 0 for other types."""
    if kind.kind in RANGES:
        return max(len(str(end)) for end in RANGES[kind.kind])
    if kind.kind is not Kind.DECIMAL:
        return 0
    digits, scale = kind.length or 10, kind.scale or 0
    return 1 + digits + (scale > 0) + (digits == scale)


def _most_bytes(column: MySqlColumn, charset: str | None) -> int:
    """Return the maximum bytes of a value as text of a character set; an upper bound if not known exactly."""
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
