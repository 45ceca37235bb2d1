"""Read the tables of the server: their columns, and which model each has.

Columns come from SHOW FULL COLUMNS, because `information_schema` lacks defaults and shows LARGEINT and JSON only in
some versions. The model (UNIQUE, DUPLICATE, AGGREGATE) and the properties come from SHOW CREATE TABLE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cdc.evolution.table import ActualColumn, ActualTable
from cdc.schema import TableId
from connectors.doris.types import read_type
from connectors.shared.conversion.target import TargetKind, TargetTable
from connectors.shared.sql.client import SqlSession
from connectors.shared.sql.text import quoted
from connectors.shared.streamload.sql_types import SqlType

UNIQUE, DUPLICATE = "UNIQUE", "DUPLICATE"
_MODEL = re.compile(r"^\s*(UNIQUE|DUPLICATE|AGGREGATE) KEY\s*\((.*)\)", re.MULTILINE)
_SEQUENCE = re.compile(r"[\"']function_column\.sequence_col[\"']\s*=\s*[\"']([^\"']+)[\"']")
_HASHED = re.compile(r"^DISTRIBUTED BY HASH\s*\((.*)\)", re.MULTILINE)
_NAME = re.compile(r"`((?:[^`]|``)*)`")


@dataclass(frozen=True)
class DorisTable(ActualTable[SqlType]):
    """A table that exists in Doris.

    Attributes:
        model: UNIQUE, DUPLICATE or AGGREGATE; only a UNIQUE table has a key.
        sorted_by: the columns of the model's key; in a DUPLICATE table they only sort the rows.
        distribution: the columns by which rows are distributed, which cannot be altered; empty for a random
            distribution.
        sequence: the column that decides which of two rows is newer; empty when the order of the loads decides.
    """

    model: str = DUPLICATE
    sorted_by: tuple[str, ...] = ()
    distribution: tuple[str, ...] = ()
    sequence: str = ""

    def target(self, longest_string: int) -> TargetTable:
        """The limits that rows must keep; columns of types that cannot be loaded are left out."""
        found = []
        for column in self.columns:
            sized = SqlType("STRING", longest_string) if column.type.name == TargetKind.STRING else column.type
            target = sized.target(column.name, nullable=column.nullable, is_key=self.in_key(column.name))
            if target is not None:
                found.append(target)
        internal = (self.sequence,) if self.sequence else ()
        return TargetTable(self.id, tuple(found), self.key, bool(self.key), internal)


def read_table(session: SqlSession, table: TableId, comment: str = "") -> DorisTable:
    """Read one table. Raises Refused when it does not exist, SinkUnavailable."""
    name = quoted(table.database, table.table)
    columns = tuple(_column(record) for record in session.records(f"SHOW FULL COLUMNS FROM {name}"))
    created = str(session.rows(f"SHOW CREATE TABLE {name}")[0][1])
    # Only search the text after the columns: the comments of columns may contain anything.
    clauses = created[max(created.rfind("\n) ENGINE"), 0) :]
    model, hashed, sequence = _MODEL.search(clauses), _HASHED.search(clauses), _SEQUENCE.search(clauses)
    sorted_by = _names(model[2]) if model else ()
    return DorisTable(
        table,
        columns,
        sorted_by if model and model[1] == UNIQUE else (),
        # In older versions, a table without a comment shows the engine's name instead.
        "" if comment == "OLAP" else comment,
        model[1] if model else DUPLICATE,
        sorted_by,
        _names(hashed[1]) if hashed else (),
        sequence[1] if sequence else "",
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(part.replace("``", "`") for part in _NAME.findall(listed))


def _column(record: dict[str, Any]) -> ActualColumn[SqlType]:
    default = record.get("Default")
    return ActualColumn(
        str(record["Field"]),
        read_type(str(record["Type"])),
        nullable=str(record["Null"]).strip().lower() in ("yes", "true", "1"),
        # A column without a default is shown with a default of NULL, which some versions print as the word.
        default=None if default is None or str(default) in ("NULL", "null", "\\N") else str(default),
        comment=str(record.get("Comment") or ""),
    )
