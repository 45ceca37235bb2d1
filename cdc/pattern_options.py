"""Types of options with table patterns, so that each pattern is checked and compared with the tables.

tables: Tables                                                a list of patterns
modes: Annotated[dict[str, Mode], BY_TABLE]                   one value per pattern
mapping: Annotated[str, PatternOption(texts, of="sink")]      any other form
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
class PatternOption:
    """Marks an `Annotated` option whose value has table patterns, which are checked with the file.

    Attributes:
        texts: returns the pattern texts in a value, each with commas between patterns. May raise OptionError.
        of: whether they match tables of the source or of the sink.
        excludes: matching tables are excluded.
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


Tables = Annotated[str, PatternOption(_itself)]
"""Table id patterns as in `cdc.pattern`."""

ExcludedTables = Annotated[str, PatternOption(_itself, excludes=True)]
"""Patterns of tables to exclude."""

BY_TABLE = PatternOption(iter)
"""For `Annotated` with `dict[str, ...]`: the keys are table patterns."""


@dataclass(frozen=True, slots=True)
class OptionPatterns:
    """Patterns of one option: `key` as in YAML, `text` as written there, with commas between patterns."""

    key: str
    text: str
    kind: PatternOption


def patterns_of(block: BaseModel) -> Iterator[OptionPatterns]:
    """Yield all patterns in the options of a block that are set, in declaration order."""
    for name, field in type(block).model_fields.items():
        value = getattr(block, name)
        for kind in _kinds(field) if value is not None else ():
            for text in kind.texts(value):
                yield OptionPatterns(field.alias or name, text, kind)


def _kinds(field: FieldInfo) -> Iterator[PatternOption]:
    yield from (each for each in field.metadata if isinstance(each, PatternOption))
    yield from _inner(field.annotation)


def _inner(annotation: Any) -> Iterator[PatternOption]:
    """Yield the markers inside a type such as `Tables | None`."""
    for each in get_args(annotation):
        if isinstance(each, PatternOption):
            yield each
        else:
            yield from _inner(each)
