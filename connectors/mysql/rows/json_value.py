"""MySQL's binary JSON as trees, which partial updates change: JSON values of Python, numbers in MySQL's spelling."""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np

from cdc.errors import CorruptLog
from connectors.mysql.kernels.json import STACK_BYTES, json_text, json_text_bound
from connectors.mysql.rows.addresses import address


class Number(str):
    """A number as MySQL spells it, with every digit."""

    __slots__ = ()


Tree: TypeAlias = "dict[str, Tree] | list[Tree] | Number | str | bool | None"


def decode(document: bytes) -> Tree:
    """Decode a binary JSON document, with keys in MySQL's order. Raises CorruptLog."""
    out, stack = np.empty(json_text_bound(len(document)), np.uint8), np.empty(STACK_BYTES, np.uint8)
    source = np.frombuffer(bytearray(document), np.uint8)  # writable, as the decoder's buffers: one compiled variant
    end = json_text(source, 0, len(document), out, 0, address(stack))
    if end < 0:
        hint = "the log is damaged; read it from another copy"
        raise CorruptLog("a partial JSON update holds bytes that are not a JSON document", hint=hint)
    tree: Tree = json.loads(out[:end].tobytes(), parse_int=Number, parse_float=Number)
    return tree


def tree_text(tree: Tree) -> str:
    """Format a tree, spaced like MySQL does: `{"a": 1, "b": [1, 2]}`."""
    if isinstance(tree, Number):
        return str(tree)
    if isinstance(tree, list):
        return f"[{', '.join(map(tree_text, tree))}]"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{tree_text(key)}: {tree_text(value)}' for key, value in tree.items())}}}"
    return json.dumps(tree, ensure_ascii=False)


def key_order(key: str) -> tuple[int, bytes]:
    """Return the sort key of an object's member: MySQL sorts by length in bytes, then by bytes."""
    name = key.encode()
    return len(name), name
