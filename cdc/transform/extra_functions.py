"""Functions that the engine lacks, computed value by value; registered by the names in `EXTRA_FUNCTIONS`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

_SPECIAL = "|*+?(){}[]^-"


def groups(regex: str) -> int:
    """Return the number of numbered groups in a regular expression."""
    plain = re.sub(r"\\Q.*?(\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", "", regex, flags=re.DOTALL)
    return len(re.findall(r"\((?!\?)|\(\?P?<", plain))


def rewritten(regex: str, by: str) -> str:
    """Convert a Java replacement, with groups such as $1, to the engine's. Raises ValueError for a missing group."""
    last = max((int(group) for group in re.findall(r"\$(\d)", by)), default=0)
    if last > groups(regex):
        raise ValueError(f"there is no group ${last} in the regular expression '{regex}'")
    return re.sub(r"\$(\d)", r"\\\1", by.replace("\\", "\\\\"))


def _similar(pattern: str, escape: str) -> str:
    """Convert a SIMILAR TO pattern to a regular expression; an empty `escape` means no escape character."""
    if len(escape) > 1:
        raise ValueError("ESCAPE takes one character")
    try:
        return similar_to_regex(pattern, escape or None)
    except ValueError as error:
        raise ValueError(f"the pattern of SIMILAR TO {error}") from error


def _find(needle: bytes, data: bytes, start: int) -> int:
    """Return the first position of bytes at or after `start`, counted from 1; 0 when they do not occur."""
    return data.find(needle, start - 1) + 1 if 1 <= start <= len(data) + 1 else 0


class _ExtraFunction(NamedTuple):
    """A function: engine types of the arguments, Arrow and engine type of the result, and the implementation."""

    arguments: tuple[str, ...]
    arrow: pa.DataType
    result: str
    of: Callable[..., Any]

    def call(self, *arrays: Any) -> pa.Array:
        """Compute the results; NULL where an argument is. Raises ValueError."""
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        return pa.array([None if None in row else self.of(*row) for row in rows], self.arrow)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache the function's results, and mark its errors so that the engine passes them on."""
    known = lru_cache(maxsize=1_000)(function)

    def called(*args: Any) -> Any:
        try:
            return known(*args)
        except ValueError as error:
            raise ValueError(f"cdc: {error}") from error

    return called


EXTRA_FUNCTIONS: dict[str, _ExtraFunction] = {
    "cdc_groups": _ExtraFunction(("VARCHAR",), pa.int32(), "INTEGER", _cached(groups)),
    "cdc_rewritten": _ExtraFunction(("VARCHAR", "VARCHAR"), pa.string(), "VARCHAR", _cached(rewritten)),
    "cdc_similar": _ExtraFunction(("VARCHAR", "VARCHAR"), pa.string(), "VARCHAR", _cached(_similar)),
    "cdc_find": _ExtraFunction(("BLOB", "BLOB", "BIGINT"), pa.int64(), "BIGINT", _find),
}


def similar_to_regex(pattern: str, escape: str | None) -> str:
    """Convert a SIMILAR TO pattern to a regular expression for whole texts. Raises ValueError with the reason."""
    result, position, in_class = "(?s:", 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            if position + 1 == len(pattern):
                raise ValueError("ends with its escape character")
            result += re.escape(pattern[position + 1])
            position += 2
            continue
        if in_class:
            in_class = char != "]"
            result += "\\\\" if char == "\\" else char
        elif char in "%_":
            result += ".*" if char == "%" else "."
        else:
            in_class = char == "["
            result += char if char in _SPECIAL and char not in "^-" else re.escape(char)
        position += 1
    if in_class:
        raise ValueError("has a [ that is never closed")
    return result + ")"
