"""Whether a new definition of a column leaves the values of rows already there certain: one closed list. Pure.

The log has the statement, not what the server made of the rows. What is not on this list is uncertain, and the table is
copied anew. On it is, besides what `cdc.evolution.certain` has for types alone:

- of numbers to another family only integers to DECIMAL and, but for BIGINT UNSIGNED, to DOUBLE: not every sink converts
  the others as the servers do; BOOLEAN, which is BIT(1) or TINYINT(1), stays what it is;
- a number that is not UNSIGNED to text: ZEROFILL, which pads the text, makes a column UNSIGNED, and nothing else tells;
- under a strict sql_mode: a smaller range or length, and NOT NULL, as the server refuses the statement where a value
  does not fit (MySQL manual, "Strict SQL Mode");
- text in another character set that has every character of the old one, and labels that stay.
"""

from __future__ import annotations

from cdc.evolution.certain import RANGES, TEXTS, LongerBytes, LongerText, OutsideOf, uncertain
from cdc.schema import Kind
from connectors.mysql.ddl.rewritten import rewritten_text
from connectors.mysql.schema.table import MySqlColumn, data_type

_OTHER_NUMBERS = {
    (Kind.BIGINT_UNSIGNED, Kind.DOUBLE),
    (Kind.DECIMAL, Kind.DOUBLE),
    *((Kind.DECIMAL, kind) for kind in RANGES),
}
_REFUSED_WHEN_STRICT = OutsideOf | LongerText | LongerBytes


def uncertain_column(old: MySqlColumn, new: MySqlColumn, *, strict: bool) -> str:
    """Why values of the column may be others than before in a way that the log does not tell; empty when none are.

    `strict`: the statement ran under STRICT_TRANS_TABLES or STRICT_ALL_TABLES.
    """
    reason = rewritten_text(old, new)
    if reason:
        return f"{reason} may have changed column {old.name}"
    if old.nullable and not new.nullable and not strict:
        return f"NULLs of column {old.name}, which is NOT NULL now, have become other values"
    before, after = data_type(old), data_type(new)
    if before == after and old.type == new.type:
        return ""
    padded = old.unsigned or old.type == "year"
    if padded and after.kind in TEXTS and (before.kind in RANGES or before.kind is Kind.DECIMAL):
        return f"the server spells the numbers of column {old.name} as text, perhaps with zeros in front"
    if "year" in (old.type, new.type) and old.type != new.type and not (after.kind in RANGES and old.type == "year"):
        return f"column {old.name} is converted to {new.type.upper()}"
    booleans = (before.kind is Kind.BOOLEAN) != (after.kind is Kind.BOOLEAN)
    if booleans or (before.kind, after.kind) in _OTHER_NUMBERS:
        return f"values of column {old.name} are converted to {after}"
    found = uncertain(after, before)
    if found is None or (strict and isinstance(found.rows, _REFUSED_WHEN_STRICT)):
        return ""
    return f"column {old.name}: {found.reason}"
