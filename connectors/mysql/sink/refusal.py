"""Classifies errors for rows that a server refuses: which errors, in which column, and why. Pure."""

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
"""Errors about a single row. Any other, such as a read-only server, concerns all rows and stops the run."""

SIGNALLED = "45"
"""SQLSTATE class of a trigger's own SIGNAL, whatever error number it gives; servers have no errors of this class."""

_ROW_SIZE = "error 139"
"""Text in error 1030 (of the storage engine) when it concerns one row: the row is too long for a page."""

_HARMLESS = frozenset({1287, 1592, 1681, 3719, 3778})
"""Warnings about a statement, not about a value: deprecated syntax, and statements unsafe for the server's own log."""

_OF_THE_SERVER = frozenset({
    5, 1037, 1038, 1041, 1044, 1142, 1143, 1227, 1290, 1370, 1792, 1836, 4184,
})  # fmt: skip
"""Errors about the user's rights, a server that only reads, and memory."""

_FULL_DISK = frozenset({3, 1021, 1026, 1114, 1878})
_NO_SPACE = "no space left"
"""Part of other errors about a full disk."""

_COLUMN = r"(?i:column|field)\b[^:]*[`'\".]"


class RowRefused(SinkError):
    """A row that the table refuses, or a statement with such a row; the statement must be rolled back.

    Attributes:
        reason: the reason to count. message: the server's message, with its error number.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def is_harmless(code: int) -> bool:
    """Return whether a warning says nothing about stored values."""
    return code in _HARMLESS


def of_a_row(error: StatementRefused) -> RowRefused | None:
    """Return the refusal of a row that an error means; None for an error about the whole table or the statement."""
    if error.state.startswith(SIGNALLED):
        return RowRefused(Reason.CHECK, str(error))
    reason = _OF_A_VALUE.get(error.code)
    if reason is None or (error.code == 1030 and _ROW_SIZE not in error.message):
        return None
    return RowRefused(reason, str(error))


def is_of_the_server(error: StatementRefused) -> bool:
    """Return whether an error is about rights, a read-only server or its disk, and not about the statement."""
    return error.code in _OF_THE_SERVER or _is_full_disk(error)


def _is_full_disk(error: StatementRefused) -> bool:
    return error.code in _FULL_DISK or _NO_SPACE in error.message.lower()


def of_the_table(error: StatementRefused, table: TableId) -> SinkError:
    """Return the error for a problem that concerns all rows."""
    steps = "alter the table or the user's rights, or see to the server, then start again"
    if _is_full_disk(error):
        steps = "free some space on the server's disk, then start again"
    hint = f"nothing of the batch is in; {steps}"
    return SinkError(str(error), where=str(table), hint=hint)


def column_of(message: str, table: ServerTable) -> str:
    """Return the table's column named in a server message; empty if none is named."""
    for column in table.columns:
        if re.search(rf"{_COLUMN}(?i:{re.escape(column.name)})[`'\"]", message):
            return column.name
    return ""
