"""Names and texts in statements for servers that read MySQL's SQL."""

from __future__ import annotations


def quoted(*names: str) -> str:
    """Quote an identifier, its parts in backquotes and joined by dots: `db`.`table`."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def text_literal(text: str) -> str:
    """Quote a string literal: both servers read backslash escapes, as MySQL does by default."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"
