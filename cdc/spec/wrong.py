"""Which values of a pipeline file have a problem already, so that nobody is told of one twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set

from cdc.spec import tree
from cdc.spec.tree import Node, Path, Scalar


def broken(node: Node, path: Path) -> Iterator[Path]:
    """Paths of values below `path` that could not be read; the reader has reported them."""
    if isinstance(node, Scalar):
        if node.broken:
            yield path
    elif isinstance(node, tree.Listing):
        for index, item in enumerate(node.items):
            yield from broken(item, (*path, index))
    else:
        for key, item in node.items.items():
            yield from broken(item, (*path, key))


class Wrong:
    """Paths that have a problem already. All questions take as long as the path is."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths: set[Path] = set()
        self._below: defaultdict[Path, set[str]] = defaultdict(set)
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """This path has one now."""
        self._paths.add(path)
        for length, step in enumerate(path):
            self._below[path[:length]].add(str(step))

    def __contains__(self, path: Path) -> bool:
        return path in self._paths

    def covers(self, path: Path) -> bool:
        """Whether the path or a block that it is in has one."""
        return any(path[:length] in self._paths for length in range(len(path) + 1))

    def below(self, path: Path) -> Set[str]:
        """The keys of the block at `path` that have one, or hold one."""
        return self._below.get(path, frozenset())
