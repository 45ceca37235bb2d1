"""Reads the `transform` block: texts of rules with their positions in the file, and all mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc.errors import Problem, SpecError
from cdc.options import Options, SourceOptions
from cdc.pattern import TablePattern
from cdc.spec import tree
from cdc.spec.model import PipelineOptions, TransformRule
from cdc.spec.tree import Scalar
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import Mistake, Span
from cdc.transform.texts import Model, RuleSettings, RuleSource, RuleTexts, UserFunction
from cdc.units import engine_zone

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec
    from cdc.transform.rules import Rules


_ANY = r"\.*.\.*"


def rule_sources(
    root: tree.Mapping, file: str, text: str, rules: Iterable[TransformRule | None]
) -> Iterator[RuleSource]:
    """Yield the rules with their texts, including those of invalid rules, which are None; `text` is the whole file."""
    for index, rule in enumerate(rules):

        def text_at(*path: str, number: int = index) -> SqlText | None:
            return _text(root, file, text, ("transform", number, *path))

        masked = tree.find(root, ("transform", index, "mask"))
        masks = {
            column: text_at("mask", column) for column in (masked.items if isinstance(masked, tree.Mapping) else ())
        }
        delimiter = text_at("table-options.delimiter")
        texts = RuleTexts(
            projection=text_at("projection"),
            filter=text_at("filter"),
            primary_keys=text_at("primary-keys"),
            partition_keys=text_at("partition-keys"),
            table_options=text_at("table-options"),
            delimiter=delimiter.text if delimiter is not None else ",",
            converter=text_at("converter-after-transform"),
            mask={column: mask for column, mask in masks.items() if mask is not None},
        )
        tables, on_error = (rule.source_table, rule.on_error or "null") if rule is not None else (_ANY, "fail")
        yield RuleSource(f"transform[{index}]", tables, texts, on_error)


def settings(
    source: Options | None,
    pipeline: PipelineOptions | None,
    functions: Sequence[UserFunction],
    models: Sequence[Model] = (),
) -> RuleSettings:
    """Return the settings common to all rules; a block that is None has problems of its own."""
    metadata = source.metadata_names() if isinstance(source, SourceOptions) else ()
    zone = pipeline.local_time_zone if pipeline is not None else "UTC"
    key = pipeline.hash_key.get_secret_value() if pipeline is not None and pipeline.hash_key is not None else ""
    given = key.encode() if pipeline is not None else b"unknown"
    dead_letters = pipeline.dead_letters if pipeline is not None else None
    namespaces = isinstance(source, SourceOptions) and source.namespaces
    return RuleSettings(
        engine_zone(zone), metadata, tuple(functions), tuple(models), given or None, dead_letters or "", namespaces
    )


def problems(sources: Iterable[RuleSource], shared: RuleSettings) -> tuple[Problem, ...]:
    """Return every mistake in the rules that does not depend on a table."""
    from cdc.transform.rules import Rules

    try:
        Rules(tuple(sources), shared)
    except SpecError as error:
        return error.problems
    return ()


_CONSTANT = re.compile(r"'((?:[^']|'')*)'")
_JAVA = re.compile(r"\\\\|\\[\"ntr]")


def escapes(sources: Iterable[RuleSource]) -> Iterator[Problem]:
    """Yield warnings for constants that earlier versions of Flink CDC interpreted as Java strings instead of SQL."""
    for source in sources:
        for text in (source.texts.projection, source.texts.filter):
            for constant in _CONSTANT.finditer(text.text) if text is not None else ():
                found = _JAVA.search(constant[1])
                if text is not None and found is not None:
                    start = constant.start(1) + found.start()
                    message = f"{found[0]} in a constant is {len(found[0])} characters, as in SQL"
                    hint = "in earlier versions of Flink CDC it is one: write one backslash, or the character itself"
                    yield text.problem(Mistake(Span(start, start + 1), message, hint))


def shadowed(sources: Sequence[RuleSource]) -> Iterator[tuple[int, str, str]]:
    """Yield tables named by a rule that an earlier rule matches: the rule's index, the table, the earlier rule."""
    named: dict[str, int] = {}
    patterns: list[tuple[int, TablePattern]] = []
    for index, source in enumerate(sources):
        for pattern in TablePattern(source.tables).separate():
            table = pattern.plain
            if table is None:
                patterns.append((index, pattern))
                continue
            earlier = [number for number, each in patterns if number < index and each.matches(table)][:1]
            known = named.setdefault(pattern.include.casefold(), index)
            first = min([*earlier, known])
            if first < index:
                yield index, pattern.include, sources[first].name


def parsed_rules(spec: PipelineSpec, pipeline: str = "") -> Rules | None:
    """Return the parsed rules of a pipeline, None without any; its id is part of its dead letters' path."""
    if not spec.rules:
        return None
    from cdc.transform.rules import Rules

    shared = spec.rule_settings
    if shared.dead_letters and pipeline:
        shared = replace(shared, dead_letters=f"{shared.dead_letters.rstrip('/')}/{pipeline}")
    return Rules(spec.rules, shared)


def _text(root: tree.Mapping, file: str, text: str, path: tree.Path) -> SqlText | None:
    """Return the text at a path, None for a missing or an empty one."""
    node = tree.find(root, path)
    if not isinstance(node, Scalar) or node.value is None or not node.text.strip():
        return None
    if node.substituted:
        return SqlText(node.text, file, tree.dotted(path), ((0, node.mark.line, node.mark.column),), exact=False)
    return SqlText.in_file(
        node.text, file=file, path=tree.dotted(path), source=text, line=node.mark.line, column=node.mark.column
    )
