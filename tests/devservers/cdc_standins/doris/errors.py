"""How Doris says no: SQL errors with `errCode = 2`, load replies with `[CODE]text`."""

from __future__ import annotations

from cdc_standins.sql_server import SqlError

DETAIL = "errCode = 2, detailMessage = "


def sql_error(message: str, errno: int = 1105, sqlstate: str = "HY000") -> SqlError:
    """An error of the SQL port in the front end's words."""
    return SqlError(DETAIL + message, errno, sqlstate)


class LoadError(Exception):
    """A load or a call about a transaction that the server refuses: `code` as in status.h, the text after it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"[{code}]{text}")
        self.code, self.text = code, text


def from_front_end(message: str) -> LoadError:
    """An error that the back end got from the front end."""
    return LoadError("ANALYSIS_ERROR", f"TStatus: {DETAIL}{message}")


class LabelExists(Exception):
    """The label is taken by a transaction that is not aborted; `state` is that one's."""

    def __init__(self, label: str, txn: int, state: str) -> None:
        super().__init__(f"TStatus: {DETAIL}Label [{label}] has already been used, relate to txn [{txn}]")
        self.state = state


class BadRows(Exception):
    """Too many rows were filtered: `total`, `filtered`, and lines for the error log."""

    def __init__(self, total: int, filtered: int, unselected: int, reasons: list[str]) -> None:
        super().__init__("[DATA_QUALITY_ERROR]too many filtered rows")
        self.total, self.filtered, self.unselected, self.reasons = total, filtered, unselected, reasons
