"""Errors of lakes: which library errors are transient, what is shown of them, and missing tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cdc.errors import CdcError, ChangeRefused, SinkError, SinkUnavailable
from cdc.schema import TableId

T = TypeVar("T")
_STORE_IS_AWAY = (
    "aws error network_connection", "aws error slow_down", "aws error service_unavailable", "aws error throttling",
    "aws error internal_failure", "aws error request_timeout", "http status 5", "http status 429",
    "timeout was reached", "unexpected_eof_while_reading", "connection broken", "type=json_invalid", "xml_",
)  # fmt: skip
"""Parts of messages of Arrow's S3 client about transient errors, in lower case. A proxy's page is no valid XML."""
_ACCESS_IS_DENIED = (
    "access_denied", "accessdenied", "access denied", "permissiondenied", "permission denied", "expired_token",
    "expiredtoken", "invalid_access_key", "invalidaccesskey", "forbidden", "unauthorized", "not authorized",
)  # fmt: skip
_NO_TLS = ("certificate_verify_failed", "ssl peer certificate")
_DISK_REFUSES = ("[errno ", "os error ", "read-only file system", "readonly database", "disk i/o error")
_STORE_REFUSES = (*_ACCESS_IS_DENIED, *_NO_TLS, *_DISK_REFUSES)
"""Parts of messages about access, certificates or disks, also of the SQLite file of a catalog, in lower case."""
_DISK_IS_FULL = ("no space left on device", "disk quota exceeded", "disk is full", "no storage space")
_ACCESS_HINT = "check the rights to the warehouse and its catalog, and whether credentials in the file have expired"
_DISK_HINT = "is the disk of the warehouse and its catalog mounted, writable and sound? then start again"
_TLS_HINT = "renew the server's certificate; REQUESTS_CA_BUNDLE names a file with an authority that is not the system's"
_SPACE_HINT = "free some space where the warehouse and its catalog are: this run or the next one continues"

_NO_DATE = ("date value out of range", "days=")
_DATE_HINT = "partition by something else, or leave rows with dates beyond the years 1 to 9999 out with a filter"

_NEXT_STEPS = (
    (_NO_DATE, _DATE_HINT),
    (_NO_TLS, _TLS_HINT),
    (_ACCESS_IS_DENIED, _ACCESS_HINT),
    (_DISK_REFUSES, _DISK_HINT),
)


@contextmanager
def library_errors(
    lake: str, where: str, secrets: Collection[str], names: Collection[str], words: Collection[str]
) -> Iterator[None]:
    """Convert errors of a lake's library to SinkUnavailable, if retryable, or SinkError.

    `secrets` are masked. Retryable are errors of classes with these `names`, or with `words` in their message.
    """
    try:
        yield
    except CdcError:
        raise
    except Exception as error:
        text = first_line(error, secrets)
        if _is_gone(error):
            raise SinkUnavailable(text, where=where, hint=_GONE_HINT) from error
        if any(mark in text.lower() for mark in _DISK_IS_FULL):
            raise SinkError(text, where=where, hint=_SPACE_HINT) from error
        hint = next((hint for marks, hint in _NEXT_STEPS if any(mark in text.lower() for mark in marks)), "")
        if _is_away(error, names, words):
            hint = hint or "is the catalog or the object store reachable?"
            raise SinkUnavailable(text, where=where, hint=hint) from error
        raise SinkError(f"{lake} refused: {text}", where=where, hint=hint) from error


def _is_away(error: BaseException | None, names: Collection[str], words: Collection[str]) -> bool:
    """Return whether an error, or one of its causes, says that a server could not be reached."""
    while error is not None:
        text = str(error).lower()
        if type(error).__name__ in names or isinstance(error, ConnectionError | TimeoutError):
            return True
        if any(word in text for word in (*words, *_STORE_IS_AWAY)):
            return True
        error = error.__cause__
    return False


def is_refusal(error: SinkError) -> bool:
    """Return whether a schema change was refused for its content, not for lack of access, a full disk or an
    unreachable store.

    Some behaviors skip a refused change.
    """
    text = str(error).lower()
    is_environment = any(mark in text for mark in (*_STORE_REFUSES, *_DISK_IS_FULL))
    return not (is_environment or error.retryable or isinstance(error.__cause__, OSError))


@contextmanager
def refused_changes() -> Iterator[None]:
    """Convert refusals of a schema change in the block to ChangeRefused; other errors propagate unchanged."""
    try:
        yield
    except SinkError as error:
        if isinstance(error, ChangeRefused) or not is_refusal(error):
            raise
        raise ChangeRefused(error.message, where=error.where, hint=error.hint) from error


def _is_gone(error: BaseException | None) -> bool:
    """Return whether an error comes from a missing file: another system may expire snapshots while they are read."""
    while error is not None and not isinstance(error, FileNotFoundError):
        error = error.__cause__
    return error is not None


_GONE_HINT = "does another system let snapshots expire at once, or clean the folder? a file in use is to stay for hours"
"""Hint for a file that stays missing however often the newest snapshot is read."""


def first_line(error: BaseException, secrets: Collection[str]) -> str:
    """Return the first line of an error and of its root cause, with these secrets masked."""
    text, cause = _beginning(error), error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    if cause is not None and _beginning(cause) not in text:
        text = f"{text} ({_beginning(cause)})"
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text


def _beginning(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:500]


def existing(table: TableId, found: T | None) -> T:
    """Return the table. Raises SinkError if it is None."""
    if found is None:
        hint = (
            "it was dropped or renamed in the lake, or the warehouse is not mounted: restore it and start again; "
            "`cdc resync` recreates it"
        )
        raise SinkError("the table does not exist", where=str(table), hint=hint)
    return found
