"""Options that hold table patterns: declared by type, so that each of them is checked and held against the tables.

tables: Tables                                                one text of patterns
modes: Annotated[dict[str, Mode], BY_TABLE]                   a value for each pattern
mapping: Annotated[str, HoldsPatterns(texts, of="sink")]      any other form
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from cdc.options import check_line
from cdc.pattern import TablePattern

Side = Literal["source", "sink"]


@dataclass(frozen=True, slots=True)
class HoldsPatterns:
    """Put into `Annotated`: the option's value holds table patterns, which are checked with the file.

    Attributes:
        texts: the texts of patterns in a value, each with commas between several. May raise OptionError.
        of: whether they are compared with tables of the source or of the sink.
        excludes: tables that match are left out.
    """

    texts: Callable[[Any], Iterable[str]]
    of: Side = "source"
    excludes: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, value: Any) -> Any:
        for text in self.texts(value):
            check_line(text.strip("\n"))
            TablePattern(text)
        return value


def _itself(text: str) -> tuple[str]:
    return (text,)


Tables = Annotated[str, HoldsPatterns(_itself)]
"""Table id patterns as in `cdc.pattern`."""

ExcludedTables = Annotated[str, HoldsPatterns(_itself, excludes=True)]
"""Patterns of tables to leave out."""

BY_TABLE = HoldsPatterns(iter)
"""Beside `dict[str, ...]`: the keys are table patterns."""


@dataclass(frozen=True, slots=True)
class OptionPatterns:
    """Patterns of one option: `key` as in YAML, `text` as the option has it, with commas between several."""

    key: str
    text: str
    kind: HoldsPatterns


def patterns_of(block: BaseModel) -> Iterator[OptionPatterns]:
    """All patterns in the options of a block that are set, in the order of their declaration."""
    for name, field in type(block).model_fields.items():
        value = getattr(block, name)
        for kind in _kinds(field) if value is not None else ():
            for text in kind.texts(value):
                yield OptionPatterns(field.alias or name, text, kind)


def _kinds(field: FieldInfo) -> Iterator[HoldsPatterns]:
    yield from (each for each in field.metadata if isinstance(each, HoldsPatterns))
    yield from _inner(field.annotation)


def _inner(annotation: Any) -> Iterator[HoldsPatterns]:
    """The marks inside `Tables | None`."""
    for each in get_args(annotation):
        if isinstance(each, HoldsPatterns):
            yield each
        else:
            yield from _inner(each)
