"""Read Debezium's schema changes, {"source", "databaseName", "ddl", "tableChanges"}, of the topic named by the prefix.

Those of the connector's snapshot describe the tables before the first row, and are not taken for statements.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from cdc.schema import DropTable, Kind, RenameTable, TableId, TruncateTable
from connectors.kafka.formats import convert
from connectors.kafka.formats.canal_types import unsigned_integer
from connectors.kafka.formats.ddl import AlteredColumns, Changes, changes_of
from connectors.kafka.formats.groups import DdlMessage
from connectors.kafka.formats.log_positions import POSITIONS, log_position_of, of_snapshot
from connectors.kafka.formats.scan import Scan
from connectors.kafka.kernels import ARRAY

_TEXTS = ("ddl", "databaseName")
_ID = re.compile(r'"((?:[^"]|"")*)"')


def table_changes(scan: Scan, row: int) -> Any:
    """The parsed member `tableChanges` of a message with `ddl`; empty when missing, None when it is not JSON."""
    cells = scan.cells("tableChanges")
    try:
        return json.loads(cells.raw(row)) if cells.kinds[row] == ARRAY else []
    except ValueError:
        return None


def schema_change(scan: Scan, row: int, number: int, tables: Any) -> list[DdlMessage]:
    """The statement of a message with `ddl`; none for messages of the snapshot.

    `number` is that of the message, `tables` are its `table_changes`.
    """
    cells = POSITIONS.scan(scan.texts.take([row]))
    if of_snapshot(cells, 0):
        return []
    ddl, database = (convert.text(scan.cells(name).take([row]))[0].as_py() or "" for name in _TEXTS)
    try:
        found = () if tables is None else _changes(ddl, database, tables)
    except (ValueError, LookupError, TypeError):  # not Debezium's form: reported as a statement not understood
        found = ()
    return [DdlMessage(number, database, ddl, found, log_position_of(cells, 0))]


def unsigned_columns(tables: Any) -> dict[TableId, frozenset[str]]:
    """By table, the columns that are BIGINT UNSIGNED according to `table_changes`, including the snapshot's."""
    found = dict[TableId, frozenset[str]]()
    try:
        for change in tables:
            table = _table(str(change["id"]))
            columns = (change.get("table") or {}).get("columns", ())
            names = (str(each["name"]) for each in columns if _is_bigint_unsigned(each))
            if table is not None:
                found[table] = frozenset(names)
    except (ValueError, LookupError, TypeError, AttributeError):  # not Debezium's form
        return {}
    return {table: names for table, names in found.items() if names}


def _is_bigint_unsigned(column: Any) -> bool:
    return unsigned_integer(str(column.get("typeName", ""))) is Kind.BIGINT_UNSIGNED


def _changes(ddl: str, database: str, changes: Any) -> Changes:
    """The changes of one table by a statement, if its text and the message's tables agree."""
    if not changes:
        return changes_of(ddl, database)
    if len(changes) != 1 or not isinstance(changes[0], dict):
        return ()
    kind, named, after = changes[0].get("type"), _table(str(changes[0].get("id", ""))), changes[0].get("table")
    match changes_of(ddl, database if named is None else named.database, of_new_name=named is not None):
        case (DropTable(table) as change,) if kind == "DROP" and table == named:
            return (change,)
        case (RenameTable(_, table) as change,) if kind != "DROP" and table == named:
            return (change,)
        case (TruncateTable(table) as change,) if kind != "DROP" and table == named:
            return (change,)
        case (AlteredColumns() as change,) if kind == "ALTER" and named is not None and isinstance(after, dict):
            if change.agrees(named, _columns(after)):
                return (replace(change, table=named),)
        case (AlteredColumns() as change, RenameTable(_, table) as rename) if table == named:
            if kind == "ALTER" and isinstance(after, dict) and change.agrees(change.table, _columns(after)):
                return (change, rename)
    return ()


def _columns(table: Any) -> list[str]:
    return [str(column["name"]) for column in table.get("columns", ())]


def _table(text: str) -> TableId | None:
    r"""The table named by a text such as `"shop"."orders"`."""
    parts = [part.replace('""', '"') for part in _ID.findall(text)]
    return TableId(parts[0], parts[-1]) if len(parts) > 1 else None
