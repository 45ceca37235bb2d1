r"""Patterns of table and topic names. All options with patterns are parsed and checked here.

A `TablePattern` is a table id pattern of Flink CDC (`tables`, `source-table`, `primary-keys` ...):

    shop.orders, shop.items            two tables
    shop.\.*                           every table of shop
    app_[0-9]+.(users|orders)          one regular expression per part

`,` separates patterns, an **unescaped** `.` separates database and table, and `\.` is the regex "any character"; `\,`
is a literal comma. Each part must match the whole name, case-insensitively unless `ignore_case` is off (for servers
with case-sensitive names). A pattern of three parts matches an id of three, `namespace.schema.table`. A pattern with
more parts than a table id is matched by its last parts; one with fewer never matches. A pattern with dots inside
groups, `(a.x|b.y)`, is matched with the whole id.

A `NamePattern` is an ordinary regular expression of a whole name (`topic-pattern`).

Apart from invalid regular expressions, these are refused: syntax with another meaning in other engines, and a brace
that begins no repetition (`t{1,2}` is split at its comma, and `t{1` would be a name that no table has).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cdc.errors import PatternTimeout
from cdc.schema import TableId
from cdc.units import OptionError

_DOT_RULE = r"an unescaped . separates database and table; regex 'any character' is written \. as in db.\.*"
_MAX_PARTS = 3
_USUAL_PARTS = 2
_REPEATS = re.compile(r"[*+?{]")
_MANY_REPEATS = 4
_MANY_CHOICES = 12
_LONGEST_MATCH_S = 0.5
_PLAIN = re.compile(r"[\w$-]+")
_NOT_A_BRACE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}", re.DOTALL)
"""Escaped characters, classes and repetitions: the places where a brace is allowed."""
_COMMA_RULE = r"a comma separates patterns: write \, for one that belongs to a pattern"


class PatternError(OptionError):
    """An invalid table pattern; `hint` explains the dot rule."""


@dataclass(frozen=True, slots=True)
class TablePattern:
    """The tables that match `include` and do not match `exclude`. The constructor raises PatternError.

    Attributes:
        ignore_case: both patterns are case-insensitive.
    """

    include: str
    exclude: str = ""
    ignore_case: bool = True

    def __post_init__(self) -> None:
        if not _alternatives(self.include):
            raise PatternError("must name at least one table", r"such as shop.orders, or shop.\.* for all of shop")
        _alternatives(self.exclude)

    def matches(self, table: TableId) -> bool:
        """Whether the table is included and not excluded."""
        if _groups(self.include, table, self.ignore_case) is None:
            return False
        return not (self.exclude and _groups(self.exclude, table, self.ignore_case) is not None)

    def groups(self, table: TableId) -> tuple[str, ...] | None:
        """Return the text of each capture group of `include` in the table's id; None when it does not match.

        Groups are numbered across all patterns, from left to right; those that did not participate are empty.
        """
        return _groups(self.include, table, self.ignore_case)

    @property
    def group_count(self) -> int:
        """Number of capture groups in `include`."""
        return sum(part.expression.groups for parts in _alternatives(self.include) for part in parts)

    def separate(self) -> list[TablePattern]:
        """Split `include` at its commas into separate patterns."""
        return [TablePattern(text, self.exclude, self.ignore_case) for text in split_patterns(self.include)]

    @property
    def plain(self) -> TableId | None:
        """The table, when the pattern is a single literal name; None for regular expressions and lists."""
        parts = [part.strip() for part in self.include.split(".")]
        if not 0 < len(parts) <= _MAX_PARTS or not all(map(_PLAIN.fullmatch, parts)):
            return None
        return TableId.parse(".".join(parts))

    @property
    def fewest_parts(self) -> int:
        """Number of parts of the shortest alternative of `include`: a pattern of 1 never matches a `database.table`."""
        return min(_parts_matched(alternative) for alternative in _alternatives(self.include))


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A regular expression of a whole name; `.` is any character, commas are literal. Creation raises PatternError."""

    text: str

    def __post_init__(self) -> None:
        _name_part(self.text)

    def matches(self, name: str) -> bool:
        """Whether the whole name matches, case-sensitively. Raises PatternTimeout."""
        return _name_part(self.text).groups(name) is not None


@lru_cache(maxsize=256)
def _name_part(text: str) -> _PartPattern:
    hint = r"such as shop\..* for all names that begin with shop."
    return _PartPattern(_compile_expression(text, text, text, 0, hint), text)


def split_patterns(text: str) -> list[str]:
    r"""Split a list of patterns at its commas, trim spaces and skip empty ones; `\,` is not a separator."""
    return [part.strip() for part in _split_unescaped(text, ",") if part.strip()]


def _parts_matched(alternative: tuple[_PartPattern, ...]) -> int:
    return _USUAL_PARTS if alternative[0].whole_id else len(alternative)


def _groups(text: str, table: TableId, ignore_case: bool) -> tuple[str, ...] | None:
    found: tuple[str, ...] | None = None
    groups: list[str] = []
    for parts in _alternatives(text, ignore_case):
        alternative = _alternative_groups(parts, table) if found is None else None
        groups += alternative if alternative is not None else [""] * sum(part.expression.groups for part in parts)
        if alternative is not None:
            found = ()
    return None if found is None else tuple(groups)


def _alternative_groups(parts: tuple[_PartPattern, ...], table: TableId) -> list[str] | None:
    """Return the groups of one pattern; None when it does not match."""
    names = (str(table),) if parts[0].whole_id else _names(table, len(parts))
    skipped = len(parts) - len(names)
    if skipped < 0:
        return None
    groups = [""] * sum(part.expression.groups for part in parts[:skipped])
    for part, name in zip(parts[skipped:], names, strict=True):
        part_groups = part.groups(name)
        if part_groups is None:
            return None
        groups += part_groups
    return groups


def _names(table: TableId, parts: int) -> Sequence[str]:
    """Return the parts of a table's id: at most two, or three of `namespace.schema.table` for a pattern of three."""
    if not table.database:
        return (table.table,)
    inner = table.table.partition(".") if parts == _MAX_PARTS else ("", "", "")
    return (table.database, inner[0], inner[2]) if inner[0] and inner[2] else (table.database, table.table)


@dataclass(frozen=True, slots=True)
class _PartPattern:
    """The regular expression of one part. `text`: the whole pattern, for errors. `whole_id`: it matches whole ids."""

    expression: re.Pattern[str]
    text: str
    whole_id: bool = False

    def groups(self, name: str) -> list[str] | None:
        """Match a whole name and return its groups, else None. Raises PatternTimeout when that takes too long.

        Python's `re` cannot be interrupted, so it is used only for expressions that cannot backtrack for long.
        """
        if not _may_take_long(self.expression.pattern):
            match: Any = self.expression.fullmatch(name)
            return None if match is None else list(match.groups(default=""))
        try:
            expression = _stoppable(self.expression.pattern, self._ignores_case)
            match = expression.fullmatch(name, timeout=_LONGEST_MATCH_S)
            return None if match is None else list(match.groups(default=""))
        except TimeoutError:
            hint = "avoid nested repetitions: write a+ instead of (a+)+"
            message = f"pattern `{self.text}` takes too long to compare with `{name}`"
            raise PatternTimeout(message, where="table pattern", hint=hint) from None

    @property
    def _ignores_case(self) -> bool:
        return bool(self.expression.flags & re.IGNORECASE)


def _may_take_long(expression: str) -> bool:
    """Whether the expression may backtrack for long: repetitions with groups, many repetitions, many alternatives."""
    repeats = len(_REPEATS.findall(expression))
    return repeats >= _MANY_REPEATS or expression.count("|") > _MANY_CHOICES or (repeats > 0 and "(" in expression)


@lru_cache(maxsize=256)
def _stoppable(expression: str, ignore_case: bool) -> Any:
    import regex

    return regex.compile(expression, regex.VERSION0 | regex.DOTALL | (regex.IGNORECASE if ignore_case else 0))


@lru_cache(maxsize=256)
def _alternatives(text: str, ignore_case: bool = True) -> tuple[tuple[_PartPattern, ...], ...]:
    try:
        return tuple(_compile(pattern, ignore_case) for pattern in split_patterns(text))
    except PatternError as error:
        meant = _with_inner_commas(text)
        if meant is None:
            raise
        raise PatternError(str(error), f"did you mean `{meant}`? {_COMMA_RULE}") from error


def _with_inner_commas(text: str) -> str | None:
    """Replace commas in `{}` and `[]` by `\\,` and those in `()` by `|`; None if the result is invalid too."""
    opened, found = "", ""
    for index, char in enumerate(text):
        escaped = index > 0 and text[index - 1] == "\\"
        if char in "([{" and not escaped:
            opened += char
        elif char in ")]}" and not escaped:
            opened = opened[:-1]
        inner = char == "," and opened and not escaped
        found += ("|" if opened[-1] == "(" else "\\,") if inner else char
    try:
        sound = [_compile(pattern, ignore_case=True) for pattern in split_patterns(found)]
    except PatternError:
        return None
    return found if found != text and sound else None


def _compile(pattern: str, ignore_case: bool) -> tuple[_PartPattern, ...]:
    written = [part.strip() for part in _split_unescaped(pattern, ".")]
    parts = [part for part in written if part]
    if not parts or len(parts) > _MAX_PARTS:
        raise PatternError(f"pattern `{pattern}` has {len(parts)} parts, a table id has at most 3", _DOT_RULE)
    try:
        compiled = tuple(_PartPattern(_compile_part(part, pattern, ignore_case), pattern) for part in parts)
    except PatternError:
        regex = _swap_dots(pattern)
        if regex is None:
            raise
        return (_PartPattern(_compile_part(regex, pattern, ignore_case), pattern, whole_id=True),)
    if not written[0] or not written[-1]:
        raise PatternError(f"pattern `{pattern}` begins or ends with a dot", _DOT_RULE)
    return compiled


def _swap_dots(pattern: str) -> str | None:
    """Convert a pattern with a dot inside a group to one of the whole id: `.` becomes literal, `\\.` any character."""
    depth, dots = 0, 0
    for index, char in enumerate(pattern):
        escaped = index > 0 and pattern[index - 1] == "\\"
        depth += 0 if escaped else (char == "(") - (char == ")")
        dots += char == "." and not escaped and depth > 0
    if not dots:
        return None
    text = re.sub(r"\\?\.", lambda match: "[.]" if match[0] == "." else match[0], pattern)
    return text if _is_regex(text) else None


def _compile_part(part: str, pattern: str, ignore_case: bool = True) -> re.Pattern[str]:
    # `.` also matches a newline, which names may contain
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return _compile_expression(part.replace(r"\.", ".").replace(r"\,", ","), part, pattern, flags)


def _compile_expression(expression: str, part: str, pattern: str, flags: int, hint: str = "") -> re.Pattern[str]:
    """Compile a regular expression in Java's syntax; `part` and `pattern` are the original texts, for errors."""
    expression = re.sub(r"\(\?<(?![=!])", "(?P<", expression)  # Java's spelling of a named group
    brace = re.search("[{}]", _NOT_A_BRACE.sub("", expression))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as Java's [a-z&&[^b]], which has another meaning in Python
            compiled = re.compile(expression, flags)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        reason = str(error).partition(" at position")[0]
        raise PatternError(
            f"pattern `{pattern}`: `{part}` is not a regular expression, {reason}", hint or _meant(pattern)
        ) from error
    if brace is not None:
        message = f"pattern `{pattern}`: `{brace[0]}` in `{part}` is not a repetition such as {{2}}"
        raise PatternError(message, rf"write \{brace[0]} for the character itself")
    return compiled


def _meant(pattern: str) -> str:
    """Return the hint for an invalid pattern: a guess at what it means, written by the dot rule."""
    any_name = re.sub(r"(?<!\\)\.(?=[*+?{])", r"\\.", re.sub(r"^\*", r"\\.*", pattern))
    swapped = re.sub(r"\\?\.", lambda dot: "." if len(dot[0]) > 1 else r"\.", pattern)  # as in any other regex
    readings = (any_name, swapped, any_name.replace(r"\.", r".\.", 1)) if set(pattern) - set("*.") else (r"\.*.\.*",)
    for candidate in readings:
        parts = [part for part in _split_unescaped(candidate, ".") if part]
        if len(parts) == _USUAL_PARTS and all(_is_regex(part) for part in parts):
            return f"did you mean `{candidate}`? {_DOT_RULE}"
    return _DOT_RULE


def _is_regex(part: str) -> bool:
    try:
        _compile_part(part, "")
    except PatternError:
        return False
    return True


def _split_unescaped(text: str, separator: str) -> list[str]:
    """Split at separators without a backslash before them; the backslashes stay."""
    parts, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\\":
            index += 1
        elif text[index] == separator:
            parts.append(text[start:index])
            start = index + 1
        index += 1
    return [*parts, text[start:]]
