"""Partial JSON updates: the content of PARTIAL_UPDATE_ROWS with `binlog_row_value_options = PARTIAL_JSON`.

A column's after image is then a list of diffs against its before image. One diff is an operation byte (0 replace, 1
insert, 2 remove), a length-encoded path (`$.a."b c"[3]`) and, except for remove, a length-encoded binary JSON value.

Sources: `Json_diff_vector::read_binary` and `apply_json_diff` in MySQL's sql-common/json_diff.cc, json_path.cc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from cdc.errors import CorruptLog
from connectors.mysql.rows.json_value import Tree, decode, key_order, tree_text


class DiffKind(IntEnum):
    """The kind of a diff; the numbers are those of the log."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """An array leg of a path: `[3]`, or counted from the last element: `[last]`, `[last-2]`."""

    index: int
    from_last: bool = False


Leg: TypeAlias = str | Cell


@dataclass(frozen=True, slots=True)
class Diff:
    """One change of a document; a removal has no `value`."""

    operation: DiffKind
    path: tuple[Leg, ...]
    value: Tree = None


def apply_diffs_text(document: bytes, diffs: bytes) -> str:
    """Return the JSON text after applying the diffs.

    Args:
        document: the before image, binary JSON.
        diffs: the column's bytes in the after image, without the 4-byte length before them; may be empty.

    Raises CorruptLog when the diffs cannot be read or do not fit the document.
    """
    return tree_text(edit_tree(decode(document), diffs))


def edit_tree(tree: Tree, diffs: bytes) -> Tree:
    """Apply diffs to a decoded document in place; returns it. On CorruptLog the tree is left partly changed."""
    for diff in read_diffs(diffs):
        _apply(tree, diff)
    return tree


def read_diffs(data: bytes) -> Iterator[Diff]:
    """Yield the diffs in the log's bytes. Raises CorruptLog."""
    at = 0
    while at < len(data):
        if data[at] > DiffKind.REMOVE:
            raise _corrupt(f"operation {data[at]}")
        operation = DiffKind(data[at])
        path, at = _sized(data, at + 1)
        if operation is DiffKind.REMOVE:
            yield Diff(operation, parse_path(path))
        else:
            value, at = _sized(data, at)
            yield Diff(operation, parse_path(path), decode(value))


def _corrupt(what: str) -> CorruptLog:
    return CorruptLog(f"a partial JSON update holds {what}", hint="the log is damaged; read it from another copy")


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes after a length-encoded integer of the client protocol, and the offset after them."""
    first = data[at] if at < len(data) else 0xFF
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if first in (0xFB, 0xFF) or at + 1 + width > len(data):
        raise _corrupt("a wrong length")
    length = int.from_bytes(data[at + 1 : at + 1 + width], "little") if width else first
    start = at + 1 + width
    if start + length > len(data):
        raise _corrupt("a length beyond its end")
    return data[start : start + length], start + length


_LEG = re.compile(
    r"""\s* (?: \. \s* (?: (?P<quoted> "(?:[^"\\]|\\.)*" ) | (?P<name> [^\s."\[\]*]+ ) )
          | \[ \s* (?: (?P<last> last ) (?: \s* - \s* (?P<back> \d+ ) )? | (?P<index> \d+ ) ) \s* \] )""",
    re.VERBOSE | re.DOTALL,
)


def parse_path(path: bytes) -> tuple[Leg, ...]:
    """Parse a path without wildcards into its legs after `$`. Raises CorruptLog."""
    try:
        text = path.decode()
        if not text.startswith("$"):
            raise _corrupt(f"the path {text!r}")
        legs: list[Leg] = []
        at, end = 1, len(text.rstrip())
        while at < end:
            match = _LEG.match(text, at)
            if match is None:
                raise _corrupt(f"the path {text!r}")
            legs.append(_leg(match))
            at = match.end()
    except ValueError as error:
        raise _corrupt(f"the path {path!r}") from error
    return tuple(legs)


def _leg(match: re.Match[str]) -> Leg:
    if match["quoted"] is not None:
        return str(json.loads(match["quoted"], strict=False))
    if match["name"] is not None:
        return match["name"]
    return Cell(int(match["back"] or 0), True) if match["last"] else Cell(int(match["index"]))


def _apply(tree: Tree, diff: Diff) -> None:
    if not diff.path:
        raise _corrupt("a path without legs")
    parent, leg = _seek(tree, diff.path[:-1]), diff.path[-1]
    fits = False
    if isinstance(parent, dict) and isinstance(leg, str):
        fits = _apply_member(parent, leg, diff)
    elif isinstance(parent, list) and isinstance(leg, Cell):
        fits = _apply_cell(parent, leg, diff)
    if not fits:
        raise CorruptLog(
            f"a partial JSON update ({diff.operation.name} {path_text(diff.path)}) does not fit the value before it",
            hint="the log is damaged or its before image is not the row's; read it from another copy",
        )


def _seek(tree: Tree, path: Sequence[Leg]) -> Tree:
    """Return the value at an exact path; None, which has no members, when it does not exist."""
    for leg in path:
        if isinstance(tree, dict) and isinstance(leg, str) and leg in tree:
            tree = tree[leg]
        elif isinstance(tree, list) and isinstance(leg, Cell) and leg.index < len(tree):
            tree = tree[_position(leg, len(tree))]
        else:
            return None
    return tree


def _position(cell: Cell, size: int) -> int:
    """Return the position of the cell in an array of that size, clamped to the nearest end."""
    return max(size - 1 - cell.index, 0) if cell.from_last else min(cell.index, size)


def _apply_member(members: dict[str, Tree], key: str, diff: Diff) -> bool:
    if (key in members) is (diff.operation is DiffKind.INSERT):
        return False
    if diff.operation is DiffKind.REMOVE:
        del members[key]
    else:
        members[key] = diff.value
    if diff.operation is DiffKind.INSERT:
        ordered = sorted(members.items(), key=lambda member: key_order(member[0]))
        members.clear()
        members.update(ordered)
    return True


def _apply_cell(elements: list[Tree], cell: Cell, diff: Diff) -> bool:
    position = _position(cell, len(elements))
    if diff.operation is DiffKind.INSERT:
        elements.insert(position, diff.value)
        return True
    if cell.index >= len(elements):
        return False
    if diff.operation is DiffKind.REMOVE:
        del elements[position]
    else:
        elements[position] = diff.value
    return True


def path_text(path: Sequence[Leg]) -> str:
    """Format a path for messages: `$."a b"[0]`, member names always quoted."""
    return "$" + "".join(
        f".{json.dumps(leg, ensure_ascii=False)}"
        if isinstance(leg, str)
        else f"[last-{leg.index}]"
        if leg.from_last
        else f"[{leg.index}]"
        for leg in path
    )
