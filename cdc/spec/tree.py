"""The tree of a pipeline file with all positions. Values only, built by `cdc.spec.reader`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Mark:
    """Line and column in the file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar.

    Attributes:
        text: the text after substitution; may contain a secret.
        value: the value by YAML 1.2: None, bool, int, float or str.
        written: the text in the file, with `${PASSWORD}` unexpanded. Safe to show unless the option is secret.
        broken: a substitution failed and was reported: the value is unknown.
    """

    mark: Mark
    text: str = field(repr=False)
    value: bool | int | float | str | None = field(repr=False)
    written: str = ""
    broken: bool = False

    @property
    def substituted(self) -> bool:
        """Whether the text comes from the environment or a file, at least in part."""
        return self.text != self.written


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping; `keys` has the position of each key."""

    mark: Mark
    items: dict[str, Node]
    keys: dict[str, Mark]


Node = Scalar | Listing | Mapping
Path = tuple[str | int, ...]


def plain(node: Node) -> Any:
    """Convert the tree to dicts, lists and typed scalars."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Listing):
        return [plain(item) for item in node.items]
    return {key: plain(item) for key, item in node.items.items()}


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield all scalars of a tree, in order; one repeated by an alias occurs again."""
    if isinstance(node, Scalar):
        yield node
        return
    for child in node.items if isinstance(node, Listing) else node.items.values():
        yield from scalars(child)


def find(root: Node, path: Sequence[str | int]) -> Node | None:
    """Return the node at a path, None when there is none."""
    node: Node | None = root
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.items.get(step)
        elif isinstance(node, Listing) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def mark_of(root: Node, path: Sequence[str | int], *, key: bool = False) -> Mark:
    """Return the position of the value at `path`, or of its key; if missing, of the nearest parent's key."""
    for length in range(len(path), 0, -1):
        parent, step = find(root, path[: length - 1]), path[length - 1]
        node = find(root, path[:length])
        if node is None:
            continue
        if isinstance(parent, Mapping) and isinstance(step, str) and (key or length < len(path)):
            return parent.keys[step]
        return node.mark
    return root.mark


def dotted(path: Sequence[str | int]) -> str:
    """Format a path: `source.scan.startup.mode`, `route[0].sink-table`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
