"""Columns that the server computes or numbers: what an ALTER does to their values without a row in the log. Pure.

A definition has no expression, as servers keep it in a spelling of their own: a column that is redefined as a
computed one may have another. A stored or virtual value also changes with the type of a column that it is computed
from (`CONCAT(price)`, `LENGTH(name)`, `name = 'x'`), and with its default (`DEFAULT(price)`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connectors.mysql.ddl.resolve import LOB_BYTES
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.statements import ColumnDefinition

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXTS = frozenset({"char", "varchar", *(name for name in LOB_BYTES if name.endswith("text"))})
_BYTES = frozenset({"varbinary", *(name for name in LOB_BYTES if name.endswith("blob"))})


def redefinition(old: MySqlColumn, new: MySqlColumn) -> str:
    """Why a column that was there and got this definition may have other values; empty for a plain one."""
    if new.generated:
        return f"the server computed column {new.name} of rows already there"
    if new.auto_increment and not old.auto_increment:
        return f"the server numbered rows whose column {new.name} had 0 or NULL"
    return ""


def computed_from(columns: Iterable[MySqlColumn], retyped: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names of computed columns with the reason why their values may be others, as columns were redefined."""
    names = ", ".join(retyped)
    if names:
        for column in columns:
            if column.generated:
                yield column.name, f"the server may have computed column {column.name} from other values of {names}"


def is_retyped(old: MySqlColumn, new: MySqlColumn, *, collated: bool) -> bool:
    """Whether an expression may give another value over the new column. `collated`: it was given a collation."""
    if collated and new.charset is not None:
        return True
    if (old.type, old.length, old.scale, old.unsigned, old.labels, old.charset) == (
        new.type, new.length, new.scale, new.unsigned, new.labels, new.charset
    ):  # fmt: skip
        return False
    if old.charset != new.charset or old.unsigned != new.unsigned:
        return True
    if old.type == new.type == "decimal":
        return old.scale != new.scale
    return not any(old.type in family and new.type in family for family in (_INTEGERS, _TEXTS, _BYTES))


def is_collated(written: ColumnDefinition) -> bool:
    """Whether a definition says how text is compared, or in which character set it is."""
    return written.collation is not None or written.type.charset is not None
