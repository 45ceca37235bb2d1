"""Rows that a server refuses: by which errors, in which column, and for which reason. Pure."""

from __future__ import annotations

import re

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.mysql.sink.dialect import ServerTable
from connectors.shared.conversion.policy import Reason
from connectors.shared.sql.client import StatementRefused

_OF_A_VALUE: dict[int, Reason] = {
    1048: Reason.IS_NULL, 1263: Reason.IS_NULL,
    1406: Reason.TOO_LONG, 1118: Reason.TOO_LONG, 1713: Reason.TOO_LONG, 1030: Reason.TOO_LONG,
    1264: Reason.OUT_OF_RANGE, 1690: Reason.OUT_OF_RANGE, 1441: Reason.OUT_OF_RANGE,
    1300: Reason.INVALID_UTF8, 3854: Reason.INVALID_UTF8, 3988: Reason.INVALID_UTF8,
    1265: Reason.NOT_CONVERTIBLE, 1292: Reason.NOT_CONVERTIBLE, 1366: Reason.NOT_CONVERTIBLE,
    1367: Reason.NOT_CONVERTIBLE, 1411: Reason.NOT_CONVERTIBLE, 1416: Reason.NOT_CONVERTIBLE,
    3037: Reason.NOT_CONVERTIBLE,
    3055: Reason.NOT_CONVERTIBLE, 3548: Reason.NOT_CONVERTIBLE, 3616: Reason.NOT_CONVERTIBLE,
    3617: Reason.NOT_CONVERTIBLE, 3643: Reason.NOT_CONVERTIBLE, 4079: Reason.NOT_CONVERTIBLE,
    6136: Reason.NOT_CONVERTIBLE, 6137: Reason.NOT_CONVERTIBLE, 6138: Reason.NOT_CONVERTIBLE,
    3140: Reason.INVALID_JSON, 3141: Reason.INVALID_JSON, 3144: Reason.INVALID_JSON, 3147: Reason.INVALID_JSON,
    3157: Reason.INVALID_JSON, 4038: Reason.INVALID_JSON,
    3819: Reason.CHECK, 4025: Reason.CHECK, 1369: Reason.CHECK, 1526: Reason.CHECK, 1748: Reason.CHECK,
    1644: Reason.CHECK,
    1062: Reason.UNIQUE_KEY, 1169: Reason.UNIQUE_KEY, 1586: Reason.UNIQUE_KEY, 1761: Reason.UNIQUE_KEY,
    1762: Reason.UNIQUE_KEY,
    1216: Reason.FOREIGN_KEY, 1217: Reason.FOREIGN_KEY, 1451: Reason.FOREIGN_KEY, 1452: Reason.FOREIGN_KEY,
}  # fmt: skip
"""Errors that are about one row. Any other, such as a server that is read-only, is about all, and stops the run."""

SIGNALLED = "45"
"""The class of SQLSTATE that a trigger's own SIGNAL has, whatever number it gives; no server has errors of it."""

_ROW_SIZE = "error 139"
"""What 1030, an error of the storage engine, says when it is one of a row: it is too long for a page."""

_HARMLESS = frozenset({1287, 1592, 1681, 3719, 3778})
"""Warnings about a statement, none about a value: deprecated syntax, and statements in the server's own log."""

_COLUMN = r"(?i:column|field)\b[^:]*[`'\".]"


class RowRefused(SinkError):
    """A row, or one of the rows of a statement, that the table does not take; the statement has to be undone.

    Attributes:
        reason: as it is counted. message: the server's words, with its error number.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def is_harmless(code: int) -> bool:
    """Whether a warning says nothing of what was stored."""
    return code in _HARMLESS


def of_a_row(error: StatementRefused) -> RowRefused | None:
    """The refusal of a row that an error means; None for one that is about the whole table or the statement."""
    if error.state.startswith(SIGNALLED):
        return RowRefused(Reason.CHECK, str(error))
    reason = _OF_A_VALUE.get(error.code)
    if reason is None or (error.code == 1030 and _ROW_SIZE not in error.message):
        return None
    return RowRefused(reason, str(error))


def of_the_table(error: StatementRefused, table: TableId) -> SinkError:
    """The error for what is about all rows."""
    hint = "nothing of the batch is in; alter the table or the user's rights, then start again"
    return SinkError(str(error), where=str(table), hint=hint)


def column_of(message: str, table: ServerTable) -> str:
    """The column that a server's words name, as the table has it; empty where they name none."""
    for column in table.columns:
        if re.search(rf"{_COLUMN}(?i:{re.escape(column.name)})[`'\"]", message):
            return column.name
    return ""
