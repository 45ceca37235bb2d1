r"""Table id patterns of Flink CDC: source `tables`, `tables.exclude` and route `source-table` are all read here.

    shop.orders, shop.items            two tables
    shop.\.*                           every table of shop
    app_[0-9]+.(users|orders)          regular expressions, one for each part

`,` separates patterns, an **unescaped** `.` separates database and table, and `\.` is the regex "any character"; `\,`
is a literal comma. Each part must match the whole name, in any case. A pattern with more parts than a table id is
compared by its last parts; one with fewer never matches.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

from cdc.schema import TableId
from cdc.units import OptionError

_DOT_RULE = r"an unescaped . separates database and table; regex 'any character' is written \. as in db.\.*"
_MAX_PARTS = 3


class PatternError(OptionError):
    """A table pattern that cannot be read; `hint` explains the dot rule."""


@dataclass(frozen=True, slots=True)
class TablePattern:
    """Which tables: those that match `include` and do not match `exclude`. Raises PatternError when made."""

    include: str
    exclude: str = ""

    def __post_init__(self) -> None:
        if not _alternatives(self.include):
            raise PatternError("must name at least one table", r"such as shop.orders, or shop.\.* for all of shop")
        _alternatives(self.exclude)

    def matches(self, table: TableId) -> bool:
        """True when the table is included and not excluded."""
        return _any_matches(self.include, table) and not (self.exclude and _any_matches(self.exclude, table))

    @property
    def fewest_parts(self) -> int:
        """Parts of the shortest alternative of `include`: a pattern of 1 never matches a `database.table`."""
        return min(len(alternative) for alternative in _alternatives(self.include))


def split_patterns(text: str) -> list[str]:
    r"""The patterns between commas, spaces trimmed, empty ones left out; `\,` is not a separator."""
    return [part.strip() for part in _split(text, ",") if part.strip()]


def _any_matches(text: str, table: TableId) -> bool:
    names = (table.database, table.table) if table.database else (table.table,)
    for parts in _alternatives(text):
        if len(parts) >= len(names) and all(
            part.fullmatch(name) for part, name in zip(parts[-len(names) :], names, strict=True)
        ):
            return True
    return False


@lru_cache(maxsize=256)
def _alternatives(text: str) -> tuple[tuple[re.Pattern[str], ...], ...]:
    return tuple(_compile(pattern) for pattern in split_patterns(text))


def _compile(pattern: str) -> tuple[re.Pattern[str], ...]:
    parts = [part.strip() for part in _split(pattern, ".") if part.strip()]
    if not parts or len(parts) > _MAX_PARTS:
        raise PatternError(f"pattern `{pattern}` has {len(parts)} parts, a table id has at most 3", _DOT_RULE)
    return tuple(_compile_part(part, pattern) for part in parts)


def _compile_part(part: str, pattern: str) -> re.Pattern[str]:
    expression = part.replace(r"\.", ".").replace(r"\,", ",")
    expression = re.sub(r"\(\?<(?![=!])", "(?P<", expression)  # Java's spelling of a named group
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as Java's [a-z&&[^b]], which Python would read as something else
            return re.compile(expression, re.IGNORECASE)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        reason = str(error).partition(" at position")[0]
        hint = rf"any name is written \.* as in {pattern.removesuffix('*')}\.*" if part == "*" else _DOT_RULE
        raise PatternError(f"pattern `{pattern}`: `{part}` is not a regular expression, {reason}", hint) from error


def _split(text: str, separator: str) -> list[str]:
    """Split at separators that have no backslash before them; the backslashes stay."""
    parts, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\\":
            index += 1
        elif text[index] == separator:
            parts.append(text[start:index])
            start = index + 1
        index += 1
    return [*parts, text[start:]]
