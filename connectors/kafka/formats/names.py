"""Check which names of tables and columns in messages can be names in a sink. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def check_columns(names: Iterable[object]) -> tuple[str, ...]:
    """The names of a table's columns. Raises ValueError for names that cannot be columns of one table."""
    found: dict[str, str] = {}
    for name in names:
        why = name_problem(name)
        if why:
            raise ValueError(f"a column {why}")
        other = found.setdefault(str(name).casefold(), str(name))
        if other != name:
            raise ValueError(f"the columns {other!r} and {name!r} differ only in upper and lower case")
    return tuple(map(str, found.values()))


def name_problem(name: object) -> str:
    """The reason why something cannot be a name; empty when it can."""
    if not isinstance(name, str):
        return f"whose name is not text, got {name!r:.40}"
    if not name:
        return "without a name"
    if "\0" in name:
        return f"with U+0000 in its name, got {name!r:.40}"
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"with half a character in its name, got {name!r:.40}"
    return ""
