"""Tree to PipelineSpec, or every problem at once.

The committed JSON Schemas are asked first, so that an editor and the command line agree; then the models check what a
schema cannot say; then what concerns several blocks.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path as FilePath
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from cdc import registry
from cdc.errors import Problem, SpecError
from cdc.options import Block, OptionError, Options, Remark, SecretStr, SinkOptions, SourceOptions
from cdc.registry import Role
from cdc.spec import functions, models, patterns, reader, rules, schemas, sinks, tree
from cdc.spec.explain import Explainer, connector_hint, violated_rule
from cdc.spec.files import read_regular
from cdc.spec.model import Checked, PipelineOptions, PipelineSpec, RouteRule, SpecWarning, TransformRule
from cdc.spec.patterns import PlacedPattern
from cdc.spec.substitute import variables
from cdc.spec.tree import Node, Path, Scalar
from cdc.spec.wrong import Wrong, broken
from cdc.transform.texts import Model, RuleSettings, RuleSource

LARGEST_FILE = 1 << 20
"""Bytes of a pipeline file: PyYAML reads about 100 kB in a second."""

LARGEST_SECRET = 64 << 10
"""Bytes of what `${file:...}` puts in."""

AnyBlock = TypeVar("AnyBlock", bound=Block)


def check_file(file: str, *, env: Mapping[str, str] | None = None) -> Checked:
    """Read and check a pipeline file. Raises SpecError with every problem, a missing file being one of them.

    Args:
        file: the path, shown in messages as it is given.
        env: where `${NAME}` looks; the process's environment when None.
    """
    try:
        data = read_regular(FilePath(file), LARGEST_FILE)
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise SpecError([Problem(file, 1, 1, "", f"cannot be read: {reason}", "check the path")]) from error
    return check(file, data, env=os.environ if env is None else env)


def check(file: str, data: bytes, *, env: Mapping[str, str], stand_ins: bytes = b"") -> Checked:
    """Check the bytes of a pipeline file; relative paths in it start at the folder of `file`. Raises SpecError.

    `stand_ins` are YAML blocks that take the place of those that the file does not have.
    """
    folder = FilePath(file).parent

    def read_file(path: str) -> str:
        return read_regular(folder / FilePath(path).expanduser(), LARGEST_SECRET).decode("utf-8")

    root, problems = reader.read(file, data, env=env, read_file=read_file)
    if root is None:
        raise SpecError(problems)
    if not isinstance(root, tree.Mapping):
        mark = root.mark
        message = "must be a mapping with `source` and `sink`"
        raise SpecError([*problems, Problem(file, mark.line, mark.column, "", message, "start with `source:`")])
    root = models.listed(_filled(root, stand_ins) if stand_ins else root)
    trees, listed = sinks.of_each_sink(file, root)
    found, warnings, specs = [*_with_paths(root, problems), *listed], set[SpecWarning](), list[PipelineSpec]()
    for each in trees:
        checker = _Checker(file, each.root, folder, data)
        spec = checker.run(each.name)
        found += map(each.problem, checker.problems)
        warnings.update(map(each.warning, checker.warnings))
        specs += [] if spec is None else [spec]
    found += [] if found else sinks.same_targets(root, specs)
    if found or not specs:
        raise SpecError(sorted(set(found), key=lambda problem: (problem.line, problem.column, problem.path)))
    placed = sorted(warnings, key=lambda warning: (warning.line, warning.column, warning.path))
    return Checked(tuple(sinks.with_rivals(specs)), tuple(placed))


def _with_paths(root: tree.Mapping, problems: Sequence[Problem]) -> Iterator[Problem]:
    """The reader's problems, with the path of the value they stand at."""
    paths = {tree.mark_of(root, path): path for path in broken(root, ())}
    for problem in problems:
        path = paths.get(tree.Mark(problem.line, problem.column), ())
        yield dataclasses.replace(problem, path=tree.dotted(path))


def _filled(root: tree.Mapping, stand_ins: bytes) -> tree.Mapping:
    """The file with the blocks that it lacks; what is said of one of those points to the file's beginning."""
    others = _stand_ins(stand_ins)
    keys = {**dict.fromkeys(others.keys, root.mark), **root.keys}
    return tree.Mapping(root.mark, {**others.items, **root.items}, keys)


@cache
def _stand_ins(blocks: bytes) -> tree.Mapping:
    """The tree of blocks that a caller puts in; there are one or two such texts in a process."""
    found, _ = reader.read("", blocks, env={}, read_file=str)
    assert isinstance(found, tree.Mapping), "stand-ins are blocks"
    return found


class _Checker:
    """One pass over one file. `wrong` holds the paths that have a problem already: nothing else is said of them."""

    def __init__(self, file: str, root: tree.Mapping, folder: FilePath, data: bytes) -> None:
        self.file, self.root, self.folder, self.data = file, root, folder, data
        self.document = tree.plain(root)
        self.explain = Explainer(file, root)
        self.problems: list[Problem] = []
        self.warnings: list[SpecWarning] = []
        self.wrong = Wrong(broken(root, ()))
        self.foreign: set[Path] = set()  # `type` of connectors of other packages, which pipeline.json cannot know

    def run(self, sink_name: str = "") -> PipelineSpec | None:
        """The spec, None when there were problems. `sink_name`: of a list."""
        source_class, sink_class = self._connector("source"), self._connector("sink")
        self._hold_against(schemas.load("pipeline.json"))
        source = self._block(("source",), source_class) if source_class else None
        sink = self._block(("sink",), sink_class) if sink_class else None
        routes = self._rules("route", model=RouteRule)
        transforms = self._rules("transform", model=TransformRule)
        pipeline = self._block(("pipeline",), PipelineOptions)
        named = self._patterns(source, sink, routes, transforms)
        written, shared = self._written_rules(transforms, source, pipeline)
        if isinstance(sink, SinkOptions):
            self._check_table_options(transforms, sink)
        if pipeline is not None:
            self._check_dead_letters(transforms, pipeline)
        if self.problems or source is None or sink is None or pipeline is None:
            return None
        return PipelineSpec(
            file=self.file,
            source=source,
            sink=sink,
            sink_name=sink_name,
            route=tuple(rule for rule in routes if rule is not None),
            transform=tuple(rule for rule in transforms if rule is not None),
            rules=written,
            rule_settings=shared,
            pipeline=pipeline,
            patterns=tuple(named),
            secret_variables=tuple(
                sorted(
                    {
                        *self._connector_secrets("source"),
                        *self._connector_secrets("sink"),
                        *self._secret_variables("pipeline", PipelineOptions),
                        *self._model_secrets(),
                    }
                )
            ),
        )

    def _connector_secrets(self, role: Role) -> Iterator[str]:
        kind = tree.find(self.root, (role, "type"))
        yield from self._secret_variables(
            role, registry.options(role, kind.text) if isinstance(kind, Scalar) else Options
        )

    def _model_secrets(self) -> Iterator[str]:
        for number in range(self._count(*models.PATH)):
            yield from self._secret_variables((*models.PATH, number), models.ModelBlock)
            yield from self._secret_variables((*models.PATH, number, "options"), models.ModelOptions)

    def _secret_variables(self, block: str | Path, model: type[Block]) -> Iterator[str]:
        """The environment variables that the secrets of a block come from."""
        path = (block,) if isinstance(block, str) else block
        for name, field in model.model_fields.items():
            node = tree.find(self.root, (*path, field.alias or name))
            if isinstance(node, Scalar) and SecretStr in (field.annotation, *get_args(field.annotation)):
                yield from variables(node.written)

    def _report(self, path: Path, problem: Problem) -> None:
        if not self.wrong.covers(path):
            self.wrong.add(path)
            self.problems.append(self._masked(problem))

    def _masked(self, problem: Problem) -> Problem:
        message, hint = self.explain.masked(problem.message), self.explain.masked(problem.hint)
        return dataclasses.replace(problem, message=message, hint=hint)

    def _written_rules(
        self, transforms: list[TransformRule | None], source: Options | None, pipeline: PipelineOptions | None
    ) -> tuple[tuple[RuleSource, ...], RuleSettings]:
        """The rules with the places of their texts, and what they share; all that is wrong in them is reported."""
        blocks = self._rules(*functions.PATH, model=functions.FunctionBlock)
        made = [
            (number, block.function())
            for number, block in enumerate(blocks)
            if block is not None and not self.wrong.below((*functions.PATH, number))
        ]
        text = self.data.decode("utf-8-sig") if transforms or made else ""
        unsound = dict(functions.load_problems(self.root, self.file, text, made))
        sound = [function for _, function in made if function.name not in unsound]
        used = self._models({block.name for block in blocks if block is not None})
        shared = rules.settings(source, pipeline, sound, used)
        written = tuple(rules.rule_sources(self.root, self.file, text, transforms))
        names = [tree.find(self.root, (*functions.PATH, number, "name")) for number in range(len(blocks))]
        paths = [(*models.PATH, number) for number in range(self._count(*models.PATH))]
        names += [tree.find(self.root, (*path, self._model_key(path))) for path in paths]
        usable = {function.name for function in sound} | {model.name for model in used}
        unknown = {node.text for node in names if isinstance(node, Scalar)} - usable
        missing = {f"there is no function {name}".casefold() for name in unknown}
        found = rules.problems(written, shared) if written else ()
        reported = [*unsound.values(), *(each for each in found if each.message.casefold() not in missing)]
        self.problems += [self._masked(problem) for problem in reported]
        self.warnings += map(self._as_warning, rules.escapes(written))
        for index, table, first in rules.shadowed(written):
            hint = "only the first rule of a table counts, whatever its filter passes: make one of both, with CASE"
            self._warn(("transform", index), Remark("source-table", f"{table} has {first} already", hint))
        return written, shared

    def _models(self, taken: Set[str]) -> list[Model]:
        """The AI models that rules may ask; `taken` are the names of functions."""
        paths = [(*models.PATH, number) for number in range(self._count(*models.PATH))]
        read = [(number, self._model(path)) for number, path in enumerate(paths)]
        made, doubled = models.distinct([(number, each) for number, each in read if each is not None], taken)
        for number in doubled:
            path = (*paths[number], self._model_key(paths[number]))
            self._report(path, self.explain.problem(path, "a function of this name is there already"))
        return made

    def _model(self, path: Path) -> Model | None:
        """One model in either form; None when something is wrong with it."""
        if not models.is_named(tree.find(self.root, path)):
            block = self._block(path, models.ModelBlock)
            return None if block is None or self.wrong.below(path) else block.for_rules()
        named, options = self._block(path, models.NamedModel), self._block((*path, "options"), models.ModelOptions)
        return None if named is None or options is None or self.wrong.below(path) else options.for_rules(named.name)

    def _model_key(self, path: Path) -> str:
        return "name" if models.is_named(tree.find(self.root, path)) else "model-name"

    def _connector(self, role: Role) -> type[Options] | None:
        """The options class that `type` names; an unknown name is reported here, a missing one by the schema."""
        path: Path = (role, "type")
        node = tree.find(self.root, path)
        if not isinstance(node, Scalar) or node.broken or not isinstance(node.value, str):
            return None
        try:
            found = registry.options(role, node.text)
        except registry.UnknownConnector:
            self._report(
                path,
                self.explain.problem(
                    path,
                    f"no {role} connector named {node.written!r}",
                    connector_hint(role, node.written, registry.names(role)),
                ),
            )
            return None
        except registry.BrokenConnector as error:
            self._report(path, self.explain.problem(path, str(error)))
            return None
        name = f"{role}s/{node.text}.json"
        if not schemas.exists(name):  # a connector of another package: its schema comes from its model
            from cdc.spec.export import options_schema

            self._hold_against({"properties": {role: options_schema(found, name)}})
            self.foreign.add(path)
        return found

    def _hold_against(self, schema: Mapping[str, Any]) -> None:
        for error in sorted(schemas.errors(self.document, schema), key=lambda error: len(error.absolute_path)):
            for path, problem in self.explain.violation(error):
                if path not in self.foreign:
                    self._report(path, problem)

    def _count(self, *path: str | int) -> int:
        node = tree.find(self.root, path)
        return len(node.items) if isinstance(node, tree.Listing) else 0

    def _rules(self, *path: str | int, model: type[AnyBlock]) -> list[AnyBlock | None]:
        return [self._block((*path, index), model) for index in range(self._count(*path))]

    def _block(self, path: Path, model: type[AnyBlock]) -> AnyBlock | None:
        """The model of one block, None when it cannot be made; problems and warnings are reported."""
        node = tree.find(self.root, path)
        if path in self.wrong or not (node is None or isinstance(node, tree.Mapping)):
            return None
        items = node.items if node is not None else {}
        for key in items:
            reason = model.ignored(key)
            if reason is not None:
                self._warn(path, Remark(key, f"Flink-only option, ignored: {reason}"))
        given = {key: _given(item) for key, item in items.items() if (*path, key) not in self.wrong}
        made, whole = self._make(path, model, given)
        if made is not None:
            for remark in made.problems():
                where = (*path, remark.key) if remark.key else path
                self._report(where, self.explain.problem(where, remark.message, remark.hint))
            if whole:
                for remark in made.warnings():
                    self._warn(path, remark)
        return made if whole else None

    def _make(self, path: Path, model: type[AnyBlock], given: dict[str, Any]) -> tuple[AnyBlock | None, bool]:
        """Build a model; with problems, once more without the wrong values, so that its other rules are checked."""
        given = {key: value for key, value in given.items() if key not in self.wrong.below(path)}
        context = {"folder": str(self.folder.absolute())}
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
            return  # the schema has said so
        node = tree.find(self.root, where)
        raised = detail.get("ctx", {}).get("error")
        message = str(raised) if isinstance(raised, OptionError) else violated_rule(detail) + self.explain.got(node)
        if isinstance(node, Scalar) and node.substituted:
            message = f"the value of {node.written} is not valid here"
        self._report(where, self.explain.problem(where, message, str(getattr(raised, "hint", ""))))

    def _warn(self, path: Path, remark: Remark) -> None:
        where = (*path, remark.key)
        mark = tree.mark_of(self.root, where, key=True)
        message, hint = self.explain.masked(remark.message), self.explain.masked(remark.hint)
        self.warnings.append(SpecWarning(self.file, mark.line, mark.column, tree.dotted(where), message, hint))

    def _check_table_options(self, transforms: list[TransformRule | None], sink: SinkOptions) -> None:
        for index, rule in enumerate(transforms):
            if rule is not None and rule.table_options and not sink.takes_table_options:
                path = ("transform", index, "table-options")
                message = f"new tables of the sink {sink.type} have no properties"
                self._report(path, self.explain.problem(path, message, "remove the key"))
            if rule is not None and rule.partition_keys and not sink.takes_partition_keys:
                hint = "a table that you create yourself may have some, the sink fills it"
                message = f"has no effect: the sink {sink.type} creates tables without partitions"
                self._warn(("transform", index), Remark("partition-keys", message, hint))

    def _check_dead_letters(self, transforms: list[TransformRule | None], pipeline: PipelineOptions) -> None:
        for index, rule in enumerate(transforms):
            if rule is not None and rule.on_error == "dead-letter" and pipeline.dead_letters is None:
                path = ("transform", index, "on-error")
                message, hint = "`dead-letter` needs a place", "name a folder with dead-letter.path in `pipeline`"
                self._report(path, self.explain.problem(path, message, hint))

    def _patterns(
        self, source: Options | None, sink: Options | None, *rules: Sequence[Block | None]
    ) -> list[PlacedPattern]:
        """Every table pattern of the file; those that match nothing, whatever tables there are, are reported."""
        blocks: list[tuple[Path, Block | None]] = [(("source",), source), (("sink",), sink)]
        for name, listed in zip(("route", "transform"), rules, strict=True):
            blocks += [((name, number), rule) for number, rule in enumerate(listed)]
        found = [each for path, block in blocks for each in patterns.placed(self.root, self.file, path, block)]
        if isinstance(source, SourceOptions):
            self.problems += map(self._masked, patterns.without_database(found, source.table_parts))
            self.warnings += map(self._as_warning, patterns.contradicted(found, source.captures()))
        return found

    def _as_warning(self, problem: Problem) -> SpecWarning:
        masked = self._masked(problem)
        return SpecWarning(masked.file, masked.line, masked.column, masked.path, masked.message, masked.hint)


def _given(node: Node) -> Any:
    """A model's input: a scalar's text (`password: 0123` means `0123`), data inside lists and mappings unchanged."""
    if isinstance(node, Scalar):
        return None if node.value is None else node.text
    return tree.plain(node)
