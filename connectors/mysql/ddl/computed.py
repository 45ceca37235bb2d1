"""Columns that the server computes or numbers: how an ALTER changes their values without logging rows. Pure.

A definition has no expression, as servers store it in a spelling of their own: a column redefined as a computed one may
have another expression. A stored or virtual value also changes with the type of a column that it is computed from
(`CONCAT(price)`, `LENGTH(name)`, `name = 'x'`), and with its default (`DEFAULT(price)`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connectors.mysql.ddl.resolve import LOB_BYTES
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.statements import ColumnDefinition

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXTS = frozenset({"char", "varchar", *(name for name in LOB_BYTES if name.endswith("text"))})
_BYTES = frozenset({"varbinary", *(name for name in LOB_BYTES if name.endswith("blob"))})


def redefinition(old: MySqlColumn, new: MySqlColumn, *, keeps_zeros: bool = False) -> str:
    """Return why an existing column may have other values under this definition; empty for a plain one.

    `keeps_zeros`: the statement ran under NO_AUTO_VALUE_ON_ZERO, as in dumps of phpMyAdmin.
    """
    if new.generated:
        return f"the server computed column {new.name} of rows already there"
    if new.auto_increment and not old.auto_increment and (old.nullable or not keeps_zeros):
        return f"the server numbered rows whose column {new.name} had 0 or NULL"
    return ""


def computed_from(columns: Iterable[MySqlColumn], retyped: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of computed columns whose values may have changed with other columns, and the reason."""
    names = ", ".join(retyped)
    if names:
        for column in columns:
            if column.generated:
                yield column.name, f"the server may have computed column {column.name} from other values of {names}"


def is_retyped(old: MySqlColumn, new: MySqlColumn, *, collated: bool) -> bool:
    """Return whether an expression over the column may change its value. `collated`: it was given a collation."""
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
    """Return whether a definition specifies a collation or a character set."""
    return written.collation is not None or written.type.charset is not None
