"""What the stand-in answers when it refuses: errors of the SQL port, and failures of a load with their status name.

The MySQL error numbers are the server's own where they are documented; 1064 covers what its analyzer says.
"""

from __future__ import annotations

from cdc_standins.sql_server import SqlError


def analyzing(message: str) -> SqlError:
    """The statement was understood and is not allowed."""
    return SqlError(f"Getting analyzing error. Detail message: {message}", 1064, "42000")


def syntax(where: str, message: str) -> SqlError:
    """The statement was not understood; `where` is the text at fault."""
    return SqlError(f"Getting syntax error at line 1. Detail message: {message} (near {where!r}).", 1064, "42000")


def refused(message: str) -> SqlError:
    """A check of DDL itself failed: the server sends its DdlException without the analyzer's words."""
    return SqlError(message, 1064, "42000")


def unknown_database(name: str) -> SqlError:
    """No such database."""
    return SqlError(f"Unknown database '{name}'", 1049, "42000")


def unknown_table(database: str, name: str) -> SqlError:
    """No such table."""
    return SqlError(f"Getting analyzing error. Detail message: Unknown table '{database}.{name}'.", 5502, "42S02")


def denied(message: str) -> SqlError:
    """The user may not do that."""
    return SqlError(f"Access denied; {message}", 5203, "42000")


class LoadFailure(Exception):
    """A load, or a step of a transaction, is refused: the status that the reply carries, and its message.

    `aborts` says that the transaction ends with it; `existing` is the ExistingJobStatus of a label that is taken.
    """

    def __init__(self, status: str, message: str, *, aborts: bool = False, existing: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.aborts = aborts
        self.existing = existing
        self.error_rows: tuple[str, ...] = ()


class FrontendFailure(LoadFailure):
    """The front end itself refuses, with the name of a Java class before the message where it threw one."""

    def __init__(self, message: str, *, java: str = "com.starrocks.common.StarRocksException") -> None:
        super().__init__("FAILED", f"class {java}: {message}" if java else message)


def analysis(message: str, *, aborts: bool = True) -> LoadFailure:
    """The plan of a load cannot be made."""
    return LoadFailure("ANALYSIS_ERROR", message, aborts=aborts)


def internal(message: str, *, aborts: bool = True) -> LoadFailure:
    """The load broke off."""
    return LoadFailure("INTERNAL_ERROR", message, aborts=aborts)
