"""Output of the commands: results on stdout, errors on stderr, one line each, as text or as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import typer

from cdc.printable import printable, printable_json

LONGEST = 2_000
"""Maximum characters of an error: location, message and next step are limited separately before."""
LONGEST_OF_PLAN = 100_000
"""Maximum characters of a line of a plan: long enough for complete statements."""


@contextmanager
def errors_as(log_format: str) -> Iterator[None]:
    """Exit with an error raised in the block, printed as JSON lines if that is the log format."""
    try:
        yield
    except Exception as error:
        if log_format == "text" or os.environ.get("CDC_DEBUG") == "1":
            raise
        raise typer.Exit(complain(error, log_format)) from None


def complain(error: Exception, log_format: str = "text") -> int:
    """Print an error for people, or as JSON lines, and return its exit code."""
    from cdc.errors import CdcError, SpecError, out_of_memory

    if isinstance(error, MemoryError):
        error = out_of_memory(str(error))
    if isinstance(error, SpecError):
        for problem in error.problems:
            say("error", str(problem), log_format)
        return error.exit_code
    if isinstance(error, CdcError):
        parts = {"error": error.class_name, "where": error.where, "hint": error.hint}
        shown = CdcError(printable(error.message), where=printable(error.where), hint=printable(error.hint))
        text = error.message if log_format == "json" else f"cdc: {shown}"
        say("error", text, log_format, exit_code=error.exit_code, **parts)
        return error.exit_code
    text = f"internal error: {type(error).__name__}: {error} (CDC_DEBUG=1 shows where)"
    say("error", text if log_format == "json" else f"cdc: {text}", log_format, exit_code=CdcError.exit_code)
    return CdcError.exit_code


def say(level: str, message: str, log_format: str, **fields: object) -> None:
    """Print one line on stderr; `fields` are for JSON only."""
    if log_format == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        fields = printable_json({"message": message, **fields})
        print(json.dumps({"time": now, "level": level, **fields}), file=sys.stderr)
    else:
        print(printable(message, longest=LONGEST), file=sys.stderr)
