"""Checks a pipeline file and builds its PipelineSpec, or reports every problem.

The committed JSON Schemas are applied first, so that editors and the command line agree; then the models check what a
schema cannot express; then rules across blocks are checked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import get_args

from cdc import registry
from cdc.errors import Problem, SpecError
from cdc.options import Block, Options, Remark, SecretStr, SinkOptions, SourceOptions
from cdc.spec import models, patterns, reader, schemas, sinks, tree
from cdc.spec.blocks import BlockReader, broken_paths
from cdc.spec.files import read_regular
from cdc.spec.model import Checked, PipelineOptions, PipelineSpec, RouteRule, SpecWarning, TransformRule
from cdc.spec.patterns import LocatedPattern
from cdc.spec.schema_check import SchemaCheck
from cdc.spec.substitute import files, variables
from cdc.spec.tree import Path, Scalar
from cdc.spec.written_rules import WrittenRules

LARGEST_FILE = 1 << 20
"""Maximum bytes of a pipeline file: PyYAML reads about 100 kB per second."""
LARGEST_SECRET = 64 << 10
"""Maximum bytes of a file named in `${file:...}`."""


def check_file(file: str, *, env: Mapping[str, str] | None = None) -> Checked:
    """Read and check a pipeline file. Raises SpecError with every problem, including a missing file.

    Args:
        file: the path, shown in messages as given.
        env: values of `${NAME}`; the process's environment when None.
    """
    try:
        data = read_regular(FilePath(file), LARGEST_FILE)
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise SpecError([Problem(file, 1, 1, "", f"cannot be read: {reason}", "check the path")]) from error
    return check(file, data, env=os.environ if env is None else env)


def digest(file: str, data: bytes) -> str:
    """Return a digest of the bytes of a pipeline file and of the files that `${file:...}` in it names."""
    found = hashlib.sha256(data)
    for path in files(data.decode("utf-8", "replace")):
        try:
            found.update(hashlib.sha256(_read_secret(FilePath(file).parent, path)).digest())
        except OSError as error:
            found.update(str(error.errno).encode())
    return found.hexdigest()


def _read_secret(folder: FilePath, path: str) -> bytes:
    return read_regular(folder / os.path.expanduser(path), LARGEST_SECRET)


def check(file: str, data: bytes, *, env: Mapping[str, str], stand_ins: bytes = b"") -> Checked:
    """Check the bytes of a pipeline file; relative paths in it start at the folder of `file`. Raises SpecError.

    `stand_ins` are YAML blocks that replace those missing in the file.
    """
    folder = FilePath(file).parent

    def read_file(path: str) -> str:
        return _read_secret(folder, path).decode("utf-8")

    root, problems = reader.read(file, data, env=env, read_file=read_file)
    if root is None:
        raise SpecError(problems)
    if not isinstance(root, tree.Mapping):
        mark = root.mark
        message = "must be a mapping with `source` and `sink`"
        raise SpecError([*problems, Problem(file, mark.line, mark.column, "", message, "start with `source:`")])
    root = models.with_model_list(_filled(root, stand_ins) if stand_ins else root)
    trees, listed = sinks.of_each_sink(file, root)
    found, warnings, specs = [*_with_paths(root, problems), *listed], set[SpecWarning](), list[PipelineSpec]()
    for each in trees:
        checker = _Checker(file, each.root, folder, data)
        spec = checker.run(each.name)
        found += map(each.problem, checker.blocks.problems)
        warnings.update(map(each.warning, checker.blocks.warnings))
        specs += [] if spec is None else [spec]
    found += [] if found else sinks.same_targets(root, specs)
    if found or not specs:
        raise SpecError(sorted(set(found), key=lambda problem: (problem.line, problem.column, problem.path)))
    placed = sorted(warnings, key=lambda warning: (warning.line, warning.column, warning.path))
    return Checked(tuple(sinks.with_rivals(specs)), tuple(placed))


def _with_paths(root: tree.Mapping, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the reader's problems with the path of their value."""
    paths = {tree.mark_of(root, path): path for path in broken_paths(root, ())}
    for problem in problems:
        path = paths.get(tree.Mark(problem.line, problem.column), ())
        yield dataclasses.replace(problem, path=tree.dotted(path))


def _filled(root: tree.Mapping, stand_ins: bytes) -> tree.Mapping:
    """Add the missing blocks to the file; problems in them are located at the file's beginning."""
    others = _stand_ins(stand_ins)
    keys = {**dict.fromkeys(others.keys, root.mark), **root.keys}
    return tree.Mapping(root.mark, {**others.items, **root.items}, keys)


@cache
def _stand_ins(blocks: bytes) -> tree.Mapping:
    """Parse stand-in blocks; a process uses only one or two such texts."""
    found, _ = reader.read("", blocks, env={}, read_file=str)
    assert isinstance(found, tree.Mapping), "stand-ins are blocks"
    return found


class _Checker:
    """Checks one file with one sink."""

    def __init__(self, file: str, root: tree.Mapping, folder: FilePath, data: bytes) -> None:
        self.file, self.root = file, root
        self.blocks = BlockReader(file, root, folder)
        self._schemas, self._written_rules = SchemaCheck(self.blocks), WrittenRules(self.blocks, data)

    def run(self, sink_name: str = "") -> PipelineSpec | None:
        """Return the spec, None when there were problems. `sink_name`: name of the sink in a list of sinks."""
        source_class, sink_class = self._schemas.connector("source"), self._schemas.connector("sink")
        self._schemas.validate(schemas.load("pipeline.json"))
        source = self.blocks.block(("source",), source_class) if source_class else None
        sink = self.blocks.block(("sink",), sink_class) if sink_class else None
        routes = self.blocks.block_list("route", model=RouteRule)
        transforms = self.blocks.block_list("transform", model=TransformRule)
        pipeline = self.blocks.block(("pipeline",), PipelineOptions)
        named = self._patterns(source, sink, routes, transforms)
        written, shared = self._written_rules.read(transforms, source, pipeline)
        if isinstance(sink, SinkOptions):
            self._check_table_options(transforms, sink)
        if pipeline is not None:
            self._check_dead_letters(transforms, pipeline)
        if self.blocks.problems or source is None or sink is None or pipeline is None:
            return None
        return PipelineSpec(
            file=self.file,
            source=source,
            sink=sink.in_zone(pipeline.local_time_zone) if isinstance(sink, SinkOptions) else sink,
            sink_name=sink_name,
            route=tuple(rule for rule in routes if rule is not None),
            transform=tuple(rule for rule in transforms if rule is not None),
            rules=written,
            rule_settings=shared,
            pipeline=pipeline,
            patterns=tuple(named),
            secret_variables=secret_variables(self.root),
        )

    def _check_table_options(self, transforms: list[TransformRule | None], sink: SinkOptions) -> None:
        for index, rule in enumerate(transforms):
            if rule is not None and rule.table_options and not sink.accepts_table_options:
                path = ("transform", index, "table-options")
                message = f"new tables of the sink {sink.type} have no properties"
                self.blocks.report(path, self.blocks.explain.problem(path, message, "remove the key"))
            if rule is not None and rule.partition_keys and not sink.accepts_partition_keys:
                message = f"has no effect: the sink {sink.type} creates tables without partitions"
                remark = Remark("partition-keys", message, sink.instead_of_partitions)
                self.blocks.warn(("transform", index), remark)

    def _check_dead_letters(self, transforms: list[TransformRule | None], pipeline: PipelineOptions) -> None:
        for index, rule in enumerate(transforms):
            if rule is not None and rule.on_error == "dead-letter" and pipeline.dead_letters is None:
                path = ("transform", index, "on-error")
                message, hint = "`dead-letter` needs a location", "name a folder with dead-letter.path in `pipeline`"
                self.blocks.report(path, self.blocks.explain.problem(path, message, hint))

    def _patterns(
        self, source: Options | None, sink: Options | None, *rules: Sequence[Block | None]
    ) -> list[LocatedPattern]:
        """Return every table pattern of the file; patterns that can never match are reported."""
        blocks: list[tuple[Path, Block | None]] = [(("source",), source), (("sink",), sink)]
        for name, listed in zip(("route", "transform"), rules, strict=True):
            blocks += [((name, number), rule) for number, rule in enumerate(listed)]
        found = [
            each for path, block in blocks for each in patterns.located_patterns(self.root, self.file, path, block)
        ]
        if isinstance(source, SourceOptions):
            self.blocks.problems += map(self.blocks.masked, patterns.without_database(found, source.table_parts))
            self.blocks.warnings += map(self.blocks.as_warning, patterns.capture_conflicts(found, source.captures()))
        return found


def secret_variables(root: tree.Mapping) -> tuple[str, ...]:
    """Return the names of all environment variables used for secrets. The file's connectors have to be valid."""
    found = {
        *_of_connector(root, "source"),
        *_of_connector(root, "sink"),
        *_of_block(root, ("pipeline",), PipelineOptions),
        *_of_models(root),
    }
    return tuple(sorted(found))


def _of_connector(root: tree.Mapping, role: registry.Role) -> Iterator[str]:
    kind = tree.find(root, (role, "type"))
    yield from _of_block(root, (role,), registry.options(role, kind.text) if isinstance(kind, Scalar) else Options)


def _of_models(root: tree.Mapping) -> Iterator[str]:
    listed = tree.find(root, models.PATH)
    for number in range(len(listed.items) if isinstance(listed, tree.Listing) else 0):
        yield from _of_block(root, (*models.PATH, number), models.ModelBlock)
        yield from _of_block(root, (*models.PATH, number, "options"), models.ModelOptions)


def _of_block(root: tree.Mapping, path: Path, model: type[Block]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        node = tree.find(root, (*path, field.alias or name))
        if isinstance(node, Scalar) and SecretStr in (field.annotation, *get_args(field.annotation)):
            yield from variables(node.written)
