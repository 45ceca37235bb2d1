"""Reads the blocks of a pipeline file as models, and collects their problems and warnings."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from cdc.errors import Problem
from cdc.options import Block, OptionError, Remark
from cdc.spec import tree
from cdc.spec.explain import Explainer, violated_rule
from cdc.spec.model import SpecWarning
from cdc.spec.tree import Node, Path, Scalar

AnyBlock = TypeVar("AnyBlock", bound=Block)


class BlockReader:
    """Reads the blocks of one file. `wrong` has the paths that already have a problem: no other is reported for them.

    `explain` words the problems.
    """

    def __init__(self, file: str, root: tree.Mapping, folder: FilePath) -> None:
        """`folder` is the base of relative paths in the file."""
        self.file, self.root, self._folder = file, root, folder
        self.explain = Explainer(file, root)
        self.problems: list[Problem] = []
        self.warnings: list[SpecWarning] = []
        self.wrong = Wrong(broken_paths(root, ()))

    def block(self, path: Path, model: type[AnyBlock]) -> AnyBlock | None:
        """Return the model of one block, None when it is invalid; problems and warnings are reported."""
        node = tree.find(self.root, path)
        if path in self.wrong or not (node is None or isinstance(node, tree.Mapping)):
            return None
        items = node.items if node is not None else {}
        for key in items:
            reason = model.ignored(key)
            instead = model.refused(key)
            if instead is not None:
                message = "Flink-only option, refused: ignoring it would give other rows or values"
                self.report((*path, key), self.explain.problem((*path, key), message, instead, key=True))
            if reason is not None:
                self.warn(path, Remark(key, f"Flink-only option, ignored: {reason}"))
        given = {key: _model_input(item) for key, item in items.items() if (*path, key) not in self.wrong}
        model_value, complete = self._make(path, model, given)
        if model_value is not None:
            for remark in model_value.problems():
                where = (*path, remark.key) if remark.key else path
                self.report(where, self.explain.problem(where, remark.message, remark.hint))
            if complete:
                for remark in model_value.warnings():
                    self.warn(path, remark)
        return model_value if complete else None

    def block_list(self, *path: str | int, model: type[AnyBlock]) -> list[AnyBlock | None]:
        """Return the models of a list of blocks, in order."""
        return [self.block((*path, index), model) for index in range(self.count(*path))]

    def count(self, *path: str | int) -> int:
        """Return the number of items of the list at a path; 0 without one."""
        node = tree.find(self.root, path)
        return len(node.items) if isinstance(node, tree.Listing) else 0

    def report(self, path: Path, problem: Problem) -> None:
        """Record a problem, unless the path already has one."""
        if not self.wrong.covers(path):
            self.wrong.add(path)
            self.problems.append(self.masked(problem))

    def warn(self, path: Path, remark: Remark) -> None:
        """Record a warning about a key of a block."""
        where = (*path, remark.key)
        mark = tree.mark_of(self.root, where, key=True)
        message, hint = self.explain.masked(remark.message), self.explain.masked(remark.hint)
        self.warnings.append(SpecWarning(self.file, mark.line, mark.column, tree.dotted(where), message, hint))

    def masked(self, problem: Problem) -> Problem:
        """Return the problem with secret values masked."""
        message, hint = self.explain.masked(problem.message), self.explain.masked(problem.hint)
        return dataclasses.replace(problem, message=message, hint=hint)

    def as_warning(self, problem: Problem) -> SpecWarning:
        """Convert the problem to a warning, with secret values masked."""
        masked = self.masked(problem)
        return SpecWarning(masked.file, masked.line, masked.column, masked.path, masked.message, masked.hint)

    def _make(self, path: Path, model: type[AnyBlock], given: dict[str, Any]) -> tuple[AnyBlock | None, bool]:
        """Build a model; after problems, again without the wrong values, so that its other rules are checked."""
        given = {key: value for key, value in given.items() if key not in self.wrong.below(path)}
        context = {"folder": str(self._folder.absolute())}
        try:
            return model.model_validate(given, context=context), not self.wrong.below(path)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                self._model_problem(path, detail)
        stand_ins = {
            field.alias or name: "a.b" for name, field in model.model_fields.items() if field.is_required()
        }  # fmt: skip
        kept = {key: value for key, value in given.items() if key not in self.wrong.below(path)}
        for key in stand_ins.keys() - kept.keys():
            self.wrong.add((*path, key))
        try:
            return model.model_validate({**stand_ins, **kept}, context=context), False
        except ValidationError:
            return None, False

    def _model_problem(self, path: Path, detail: Any) -> None:
        where = path
        for step in detail["loc"]:
            if tree.find(self.root, (*where, step)) is not None:
                where = (*where, step)
        if detail["type"] == "missing":
            return  # the schema has reported it
        node = tree.find(self.root, where)
        raised = detail.get("ctx", {}).get("error")
        message = str(raised) if isinstance(raised, OptionError) else violated_rule(detail) + self.explain.got(node)
        if isinstance(node, Scalar) and node.substituted:
            message = f"the value of {node.written} is not valid here"
        self.report(where, self.explain.problem(where, message, str(getattr(raised, "hint", ""))))


def _model_input(node: Node) -> Any:
    """Return a model's input: a scalar's text (`password: 0123` means `0123`); lists and mappings are not changed."""
    if isinstance(node, Scalar):
        return None if node.value is None else node.text
    return tree.plain(node)


def broken_paths(node: Node, path: Path) -> Iterator[Path]:
    """Yield the paths of values below `path` that could not be read; the reader has reported them."""
    if isinstance(node, Scalar):
        if node.broken:
            yield path
    elif isinstance(node, tree.Listing):
        for index, item in enumerate(node.items):
            yield from broken_paths(item, (*path, index))
    else:
        for key, item in node.items.items():
            yield from broken_paths(item, (*path, key))


class Wrong:
    """Set of paths that already have a problem. All operations take time proportional to the length of the path."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths: set[Path] = set()
        self._below: defaultdict[Path, set[str]] = defaultdict(set)
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> None:
        """Add a path."""
        self._paths.add(path)
        for length, step in enumerate(path):
            self._below[path[:length]].add(str(step))

    def __contains__(self, path: Path) -> bool:
        return path in self._paths

    def covers(self, path: Path) -> bool:
        """Whether the path or one of its parents is in the set."""
        return any(path[:length] in self._paths for length in range(len(path) + 1))

    def below(self, path: Path) -> Set[str]:
        """Return the keys of the block at `path` whose path, or a path below it, is in the set."""
        return self._below.get(path, frozenset())
