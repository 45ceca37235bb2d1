"""A parsed transform rule; its names and expressions are not yet checked against a table."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from cdc.errors import Problem, SpecError
from cdc.transform.catalogue import FUNCTIONS
from cdc.transform.catalogue.mask import MASKS
from cdc.transform.check import Callee
from cdc.transform.convert import Arity
from cdc.transform.parse import Condition, Projection, parse_filter, parse_projection
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import Call, Item, Mistake, Name, Span, names, walk
from cdc.transform.texts import OnError, RuleTexts

T = TypeVar("T")
_MASK = re.compile(r"\s*([A-Za-z_]+)\s*(?:\(\s*(\d{1,6})\s*\))?\s*")


@dataclass(frozen=True)
class CustomFunction:
    """A user function.

    Attributes:
        arity: the number of arguments.
        callee: types its calls.
        mistake_in: returns the mistake in a call, if any.
        on_block: calls it once for the arguments of all rows, as Arrow arrays; None where only the engine calls it.
    """

    arity: Arity
    callee: Callee
    mistake_in: Callable[[Call], Mistake | None] = lambda call: None
    on_block: Callable[..., pa.Array] | None = None


@dataclass(frozen=True)
class Mask:
    """The `mask:` of one column: the function and its number."""

    column: str
    function: str
    number: int | None
    text: SqlText


@dataclass(frozen=True)
class Rule:
    """A parsed rule.

    Attributes:
        name: such as `transform[0]`, for messages.
        projection, filter: None where the file has none.
        primary_keys, partition_keys: column names; empty when the file has none.
        table_options: for creating the sink table.
        soft_delete: deletes become inserts of the deleted row.
        masks: columns whose values are hidden.
        metadata: names of the source's `metadata.list`.
        namespaces: the source's ids may be `namespace.schema.table`.
        own: the user's functions by upper-case name.
        on_error: the handling of values on which an expression fails.
        typed: cached results of `cdc.transform.rule_types.typing_of`, by schema and the source's own types.
    """

    name: str
    projection: Projection | None = None
    filter: Condition | None = None
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    keys_text: SqlText | None = None
    partition_text: SqlText | None = None
    table_options: Mapping[str, str] = field(default_factory=dict)
    soft_delete: bool = False
    masks: tuple[Mask, ...] = ()
    metadata: tuple[str, ...] = ()
    own: Mapping[str, CustomFunction] = field(default_factory=dict)
    on_error: OnError = "fail"
    namespaces: bool = False
    typed: OrderedDict[object, Any] = field(default_factory=OrderedDict, compare=False, repr=False)


def parse_rule(
    name: str,
    texts: RuleTexts,
    *,
    metadata: tuple[str, ...] = (),
    namespaces: bool = False,
    own: Mapping[str, CustomFunction] | None = None,
    on_error: OnError = "fail",
    keyed: bool = True,
) -> Rule:
    """Parse everything in a rule that does not depend on a table. Raises SpecError with all its problems.

    `keyed` is whether there is a key for HASH; without one, HASH is a problem.
    """
    functions = own or {}
    problems: list[Problem] = []

    def arity(function: str) -> Arity | None:
        if function in functions:
            return functions[function].arity
        return FUNCTIONS[function].arity if function in FUNCTIONS else None

    known = [*functions, *FUNCTIONS]
    projection = _parse_collecting(
        problems, lambda: parse_projection(texts.projection, arity, known) if texts.projection else None
    )
    condition = _parse_collecting(problems, lambda: parse_filter(texts.filter, arity, known) if texts.filter else None)
    masks = [_parse_collecting(problems, lambda c=column, t=text: _mask(c, t)) for column, text in texts.mask.items()]  # type: ignore[misc]
    options = _parse_collecting(problems, lambda: _options(texts.table_options, texts.delimiter)) or {}
    soft = _parse_collecting(problems, lambda: _soft_delete(texts.converter)) or False
    if not keyed and "HASH" not in functions:
        problems += _hashes(projection, condition, masks)
    if projection is not None:
        problems += _masked_names(projection, texts)
        problems += _missing_keys(projection, texts)
    problems += _unnamed_keys(texts)
    for text, node in _calls(projection, condition):
        mistake = functions[node.name].mistake_in(node) if node.name in functions else None
        problems += [text.problem(mistake)] if mistake else []
    if problems:
        raise SpecError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    return Rule(
        name, projection, condition, _names(texts.primary_keys), _names(texts.partition_keys), texts.primary_keys,
        texts.partition_keys, options, soft, tuple(mask for mask in masks if mask is not None), metadata, functions,
        on_error, namespaces,
    )  # fmt: skip


_NO_KEY = ("HASH needs a key", "set pipeline.hash-key, such as ${HASH_KEY}")


def _hashes(
    projection: Projection | None, condition: Condition | None, masks: Sequence[Mask | None]
) -> Iterator[Problem]:
    """Yield a problem for every HASH in a rule."""
    calls = _calls(projection, condition)
    yield from (text.problem(Mistake(call.span, *_NO_KEY)) for text, call in calls if call.name == "HASH")
    for mask in masks:
        if mask is not None and mask.function == "HASH":
            yield mask.text.problem(Mistake(Span(0, 1), *_NO_KEY))


def masked_mistake(column: str, span: Span) -> Mistake:
    """Return the mistake of an expression that computes with a masked column and could show its value."""
    hint = "compute from another column, or write the masking into the expression"
    return Mistake(span, f"the column {column} is masked, it cannot be computed with", hint)


def _masked_names(projection: Projection, texts: RuleTexts) -> Iterator[Problem]:
    """Yield problems of columns computed from masked ones, before any table is known."""
    masked = {column.casefold() for column in texts.mask}
    for item in projection.items:
        if isinstance(item, Item) and not isinstance(item.node, Name):
            used = next((name for name in names(item.node) if name.name.casefold() in masked), None)
            if used is not None:
                yield projection.text.problem(masked_mistake(used.name, item.node.span))


def missing_key(text: SqlText, key: str, columns: Iterable[str]) -> Problem:
    """Return the problem of a key column that is not in the rule's result."""
    start = max(text.text.find(key), 0)
    hint = f"the rule makes {', '.join(columns)}"
    return text.problem(Mistake(Span(start, start + 1), f"there is no column {key}", hint))


def _missing_keys(projection: Projection, texts: RuleTexts) -> Iterator[Problem]:
    """Yield problems of key columns that a projection without `*` omits."""
    items = [item for item in projection.items if isinstance(item, Item)]
    if len(items) < len(projection.items):
        return
    names = [item.name or (item.node.name if isinstance(item.node, Name) else "") for item in items]
    for text in filter(None, (texts.primary_keys, texts.partition_keys)):
        for key in _names(text):
            if key.casefold() not in {name.casefold() for name in names}:
                yield missing_key(text, key, names)


def _calls(projection: Projection | None, condition: Condition | None) -> Iterator[tuple[SqlText, Call]]:
    """Yield every call in a rule's expressions, with its text."""
    items = () if projection is None else projection.items
    nodes = [(projection.text, item.node) for item in items if projection is not None and isinstance(item, Item)]
    nodes += [] if condition is None else [(condition.text, condition.node)]
    yield from ((text, each) for text, node in nodes for each in walk(node) if isinstance(each, Call))


def _parse_collecting(problems: list[Problem], parse: Callable[[], T]) -> T | None:
    try:
        return parse()
    except SpecError as error:
        problems += error.problems
        return None


def _names(text: SqlText | None) -> tuple[str, ...]:
    if text is None:
        return ()
    return tuple(part.strip().strip("`") for part in text.text.split(",") if part.strip())


def _unnamed_keys(texts: RuleTexts) -> Iterator[Problem]:
    """Yield problems of lists of key columns with an empty name; a trailing comma is allowed."""
    for text in filter(None, (texts.primary_keys, texts.partition_keys)):
        names = text.text.split(",")
        if not all(name.strip() for name in names[: len(names) - 1 or 1]):
            yield text.problem(
                Mistake(Span(0, len(text.text)), "a column's name is empty", "write names such as id, region")
            )


def _mask(column: str, text: SqlText) -> Mask:
    match = _MASK.fullmatch(text.text)
    name = match[1].upper() if match else ""
    if match is None or name not in MASKS:
        hint = f"one of {', '.join(MASKS)}, such as MASK(4)"
        raise SpecError([text.problem(Mistake(Span(0, 1), f"`{text.text}` is not a masking function", hint))])
    number = int(match[2]) if match[2] else None
    if (name == "TRUNCATE_TEXT") != (number is not None) and name != "MASK":
        hint = "TRUNCATE_TEXT takes a number, HASH and REDACT take none"
        raise SpecError([text.problem(Mistake(Span(0, 1), f"`{text.text}` cannot be read", hint))])
    return Mask(column, name, number, text)


def _options(text: SqlText | None, delimiter: str) -> dict[str, str]:
    options: dict[str, str] = {}
    offset = 0
    for part in text.text.split(delimiter) if text is not None else []:
        key, equals, value = part.partition("=")
        if part.strip() and (not equals or not key.strip()):
            assert text is not None
            start = offset + len(part) - len(part.lstrip())
            mistake = Mistake(
                Span(start, start + 1), f"`{part.strip()}` is not `key=value`", "see table-options.delimiter"
            )
            raise SpecError([text.problem(mistake)])
        if part.strip():
            options[key.strip()] = value.strip()
        offset += len(part) + len(delimiter)
    return options


def _soft_delete(text: SqlText | None) -> bool:
    if text is None:
        return False
    if text.text.strip().upper() != "SOFT_DELETE":
        mistake = Mistake(Span(0, 1), f"there is no converter `{text.text.strip()}`", "SOFT_DELETE is the one there is")
        raise SpecError([text.problem(mistake)])
    return True
