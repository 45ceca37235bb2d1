"""Options shared by all readers of a MySQL or MariaDB binlog. Names are Flink CDC's, except where noted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, PrivateAttr

from cdc.options import AnyCase, Field, Remark, SourceOptions
from cdc.pattern import TablePattern, split_patterns
from cdc.pattern_options import ExcludedTables, Tables
from cdc.schema import TableId
from connectors.mysql.table import SYSTEM_DATABASES
from connectors.mysql.value_rules import ValueRules

_TABLES_OF_TOOLS = r"\.*._\.+_(gho|ghc|ghk|del|new|old)"
"""Table pattern for the working tables of gh-ost and pt-online-schema-change."""
_TABLES_OF_SYSTEM = ", ".join(rf"{database}.\.*" for database in sorted(SYSTEM_DATABASES))
"""Table pattern for the server's own tables, whose rows may be in a log: time zones, a cloud service's heartbeat."""
_PLAIN_NAME = re.compile(r"\w+\.\w+")
InvalidDates = Literal["null", "fail"]


def _null_is_a_word(value: object) -> object:
    return "null" if value is None else value


class LogOptions(SourceOptions):
    """Options shared by all readers of a MySQL or MariaDB binlog."""

    fixed_reason: ClassVar[str] = "rows that are there have values of the other type"

    tables: Tables = Field(
        description="Tables to capture: `shop.orders, shop.item_[0-9]+`, all of shop: `shop.\\.*`. An unescaped "
        "`.` separates database and table, `\\.` is regex 'any character'. The server's own databases "
        "(`mysql`, `sys`, ...) are never captured. Names are compared like the server compares them: "
        "case-sensitive if its lower_case_table_names is 0, else (and for binlog files) "
        "case-insensitive."
    )
    tables_exclude: ExcludedTables | None = Field(
        None, alias="tables.exclude", description="Tables to exclude from `tables`, in the same syntax."
    )
    schema_change_enabled: bool = Field(
        True,
        alias="schema-change.enabled",
        description="Apply schema changes to the sink. When false, a change of a captured table's columns stops "
        "the pipeline.",
    )
    online_schema_changes: bool = Field(
        False,
        alias="scan.parse.online.schema.changes.enabled",
        description="Treat the table swap at the end of a gh-ost or pt-osc run as the ALTER that it implements; a "
        "table whose rows are uncertain is re-snapshotted. The tools' own tables are not captured: "
        "names such as _t_gho, _t_ghc, _t_ghk, _t_del, _t_new, _t_old. When false, the swapped table "
        "is a new table and re-snapshotted, or the pipeline stops if it takes no snapshots.",
    )
    include_comments: bool = Field(
        False, alias="include-comments.enabled", description="Replicate comments of tables and columns."
    )
    tinyint1_as_boolean: bool = Field(
        False,
        alias="treat-tinyint1-as-boolean.enabled",
        description="Read TINYINT(1) as BOOLEAN, which turns every value except 0 into true. The default is false, "
        "so that no value is lost (Flink CDC's default is true). Cannot be changed for an existing "
        "pipeline.",
    )
    invalid_dates: Annotated[InvalidDates, AnyCase, BeforeValidator(_null_is_a_word)] = Field(
        "null",
        alias="invalid-dates",
        description="What to do with invalid dates, such as 0000-00-00: `null` replaces them with NULL and counts "
        "them, `fail` stops the pipeline.",
    )
    invalid_text: Annotated[Literal["fail", "replace"], AnyCase] = Field(
        "fail",
        alias="invalid-text",
        description="What to do with bytes that are invalid in a column's character set, such as 0x81 in cp1250: "
        "`fail` stops the pipeline, `replace` replaces them with U+FFFD and counts them. In a key they "
        "always stop the pipeline.",
    )

    _ignore_case: bool = PrivateAttr(True)

    def comparing_names(self, *, ignore_case: bool) -> Self:
        """Return a copy whose patterns ignore case or not; the default ignores it."""
        found = self.model_copy()
        found._ignore_case = ignore_case
        return found

    @property
    def pattern(self) -> TablePattern:
        """The pattern of the tables to capture."""
        return TablePattern(self.tables, self.excluded, self._ignore_case)

    @property
    def excluded(self) -> str:
        """Patterns of excluded tables: `tables.exclude`, the server's own tables, those of online schema changes."""
        tools = _TABLES_OF_TOOLS if self.online_schema_changes else ""
        return ", ".join(filter(None, (self.tables_exclude, _TABLES_OF_SYSTEM, tools)))

    def captures(self) -> TablePattern:
        """Return the pattern of the tables to capture, ignoring case."""
        return TablePattern(self.tables, self.excluded)

    def fixed(self) -> Mapping[str, str]:
        """Return the options that set column types and therefore cannot change during the life of a pipeline."""
        return {"treat-tinyint1-as-boolean.enabled": str(self.tinyint1_as_boolean).lower()}

    @property
    def value_rules(self) -> ValueRules:
        """The options for the treatment of single values."""
        return ValueRules(
            tinyint1_as_boolean=self.tinyint1_as_boolean,
            strict_dates=self.invalid_dates == "fail",
            replaces_text=self.invalid_text == "replace",
        )

    @property
    def warns_of_cascades(self) -> bool:
        """Whether the user is warned of foreign keys that change rows without logging them."""
        return True

    def copies_new(self, table: TableId) -> bool:
        """Return whether the rows that a table has when its capture begins are copied."""
        return False

    def copies_uncertain(self, table: TableId) -> bool:
        """Return whether a table is re-snapshotted when the log does not show how a schema change affects its rows."""
        return False

    def problems(self) -> Iterator[Remark]:
        """Report names that match nothing because they are tables of the server or of a schema change tool."""
        why = [(_TABLES_OF_SYSTEM, "", "leave it out: it is a table of the server itself")]
        if self.online_schema_changes:
            tools = " with scan.parse.online.schema.changes.enabled"
            why.append((_TABLES_OF_TOOLS, tools, "leave it out, or turn the option off"))
        for name in filter(_PLAIN_NAME.fullmatch, split_patterns(self.tables)):
            for pattern, when, hint in why:
                if TablePattern(pattern).matches(TableId(*name.split("."))):
                    yield Remark("tables", f"{name} is not captured{when}", hint)
