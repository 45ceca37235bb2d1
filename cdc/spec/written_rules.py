"""Reads the transform rules of a file, with the user functions and AI models that they call."""

from __future__ import annotations

from collections.abc import Set

from cdc.options import Options, Remark
from cdc.spec import functions, models, rules, tree
from cdc.spec.blocks import BlockReader
from cdc.spec.model import PipelineOptions, TransformRule
from cdc.spec.tree import Path, Scalar
from cdc.transform.texts import Model, RuleSettings, RuleSource


class WrittenRules:
    """Reads the rules of one file. `data` are its bytes, for the positions of texts."""

    def __init__(self, blocks: BlockReader, data: bytes) -> None:
        self._blocks, self._data = blocks, data

    def read(
        self, transforms: list[TransformRule | None], source: Options | None, pipeline: PipelineOptions | None
    ) -> tuple[tuple[RuleSource, ...], RuleSettings]:
        """Return the rules with the positions of their texts, and their common settings; report all problems."""
        blocks = self._blocks.block_list(*functions.PATH, model=functions.FunctionBlock)
        declared = [
            (number, block.function())
            for number, block in enumerate(blocks)
            if block is not None and not self._blocks.wrong.below((*functions.PATH, number))
        ]
        text = self._data.decode("utf-8-sig") if transforms or declared else ""
        unsound = dict(functions.load_problems(self._blocks.root, self._blocks.file, text, declared))
        sound = [function for _, function in declared if function.name not in unsound]
        used = self._models({block.name for block in blocks if block is not None})
        shared = rules.settings(source, pipeline, sound, used)
        written = tuple(rules.rule_sources(self._blocks.root, self._blocks.file, text, transforms))
        names = [tree.find(self._blocks.root, (*functions.PATH, number, "name")) for number in range(len(blocks))]
        paths = [(*models.PATH, number) for number in range(self._blocks.count(*models.PATH))]
        names += [tree.find(self._blocks.root, (*path, self._model_key(path))) for path in paths]
        usable = {function.name for function in sound} | {model.name for model in used}
        unknown = {node.text for node in names if isinstance(node, Scalar)} - usable
        missing = {f"there is no function {name}".casefold() for name in unknown}
        found = rules.problems(written, shared) if written else ()
        reported = [*unsound.values(), *(each for each in found if each.message.casefold() not in missing)]
        self._blocks.problems += [self._blocks.masked(problem) for problem in reported]
        self._blocks.warnings += map(self._blocks.as_warning, rules.escapes(written))
        for index, table, first in rules.shadowed(written):
            hint = "only the first rule of a table applies, whatever its filter: combine them into one, with CASE"
            self._blocks.warn(("transform", index), Remark("source-table", f"{table} already has {first}", hint))
        return written, shared

    def _models(self, reserved: Set[str]) -> list[Model]:
        """Return the AI models that rules may use; `reserved` are the names of functions."""
        paths = [(*models.PATH, number) for number in range(self._blocks.count(*models.PATH))]
        read = [(number, self._model(path)) for number, path in enumerate(paths)]
        unique, doubled = models.distinct([(number, each) for number, each in read if each is not None], reserved)
        for number in doubled:
            path = (*paths[number], self._model_key(paths[number]))
            self._blocks.report(path, self._blocks.explain.problem(path, "a function of this name already exists"))
        return unique

    def _model(self, path: Path) -> Model | None:
        """Return a model in either form; None when it has a problem."""
        blocks = self._blocks
        if not models.is_named(tree.find(blocks.root, path)):
            block = blocks.block(path, models.ModelBlock)
            return None if block is None or blocks.wrong.below(path) else block.for_rules()
        named = blocks.block(path, models.NamedModel)
        options = blocks.block((*path, "options"), models.ModelOptions)
        return None if named is None or options is None or blocks.wrong.below(path) else options.for_rules(named.name)

    def _model_key(self, path: Path) -> str:
        return "name" if models.is_named(tree.find(self._blocks.root, path)) else "model-name"
