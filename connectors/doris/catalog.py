"""Tables in the server, with their columns and models.

Columns come from SHOW FULL COLUMNS, as `information_schema` lacks defaults and tells LARGEINT and JSON only in some
versions; the model (UNIQUE, DUPLICATE, AGGREGATE) and the properties from SHOW CREATE TABLE.
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
    """A table that exists.

    Attributes:
        model: UNIQUE, DUPLICATE or AGGREGATE; only a UNIQUE table has a key.
        sorted_by: the columns of that model's key; of a DUPLICATE table they only sort.
        distribution: the columns that say where a row is, which cannot be altered; empty when it is random.
        sequence: the column that decides which of two rows is newer, empty when it is the order of loads.
    """

    model: str = DUPLICATE
    sorted_by: tuple[str, ...] = ()
    distribution: tuple[str, ...] = ()
    sequence: str = ""

    def target(self, longest_string: int) -> TargetTable:
        """The limits for rows; columns of types that cannot be loaded are left out."""
        found = []
        for column in self.columns:
            sized = SqlType("STRING", longest_string) if column.type.name == TargetKind.STRING else column.type
            target = sized.target(column.name, nullable=column.nullable, is_key=self.in_key(column.name))
            if target is not None:
                found.append(target)
        kept = (self.sequence,) if self.sequence else ()
        return TargetTable(self.id, tuple(found), self.key, bool(self.key), kept)


def read_table(session: SqlSession, table: TableId, comment: str = "") -> DorisTable:
    """Read one table that exists. Raises Refused when it does not, SinkUnavailable."""
    name = quoted(table.database, table.table)
    columns = tuple(_column(record) for record in session.records(f"SHOW FULL COLUMNS FROM {name}"))
    created = str(session.rows(f"SHOW CREATE TABLE {name}")[0][1])
    # What follows the columns: their comments may hold anything.
    rest = created[max(created.rfind("\n) ENGINE"), 0) :]
    model, hashed, sequence = _MODEL.search(rest), _HASHED.search(rest), _SEQUENCE.search(rest)
    sorted_by = _names(model[2]) if model else ()
    return DorisTable(
        table,
        columns,
        sorted_by if model and model[1] == UNIQUE else (),
        # A table without a comment shows the engine's name in older versions.
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
        # A column without a default shows as a default of NULL; some versions print the word.
        default=None if default is None or str(default) in ("NULL", "null", "\\N") else str(default),
        comment=str(record.get("Comment") or ""),
    )
