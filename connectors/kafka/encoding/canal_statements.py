"""Statements as Canal's flat messages have them: `isDdl`, the text, and which kind it is."""

from __future__ import annotations

import re
from typing import Any

from connectors.kafka.encoding.table_changes import TableChange

_KINDS = {"CREATE": "CREATE", "ALTER": "ALTER", "RENAME": "RENAME", "DROP": "ERASE", "TRUNCATE": "TRUNCATE"}
_OF_DATABASE = re.compile(r"\s*drop\s+(database|schema)\b", re.IGNORECASE)


def of_database(change: TableChange) -> bool:
    """Whether the statement drops a whole database."""
    return change.statement is not None and _OF_DATABASE.match(change.statement.sql) is not None


def message(change: TableChange, now_ms: int, *, one_topic: bool) -> dict[str, Any] | None:
    """One for each table of a statement; None without a statement: Canal tells of those alone.

    One for a dropped database, and one for a RENAME of several tables where all messages go to one topic.
    """
    statement = change.statement
    as_one = of_database(change) or (one_topic and change.kind == "RENAME")
    if statement is None or (as_one and not change.first):
        return None
    kind, table = _KINDS[change.kind], change.table.table
    if of_database(change):
        kind, table = "QUERY", ""
    return {
        "data": None, "database": change.table.database, "es": statement.ts_ms, "gtid": "", "id": statement.end,
        "isDdl": True, "mysqlType": None, "old": None, "pkNames": None, "sql": statement.sql, "sqlType": None,
        "table": table, "ts": now_ms, "type": kind,
    }  # fmt: skip
