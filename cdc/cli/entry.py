"""Entry and exit of the `cdc` command. The only place that exits the process."""

from __future__ import annotations

import io
import os
import sys

from cdc.cli.output import complain
from cdc.cli.root import app
from cdc.process.signals import exit_on_signal, ignore

CLOSED_PIPE = 141
"""Exit code when the reader of the output has closed it: that of a program ended by SIGPIPE."""


def main() -> None:
    """Run the `cdc` command: errors become one line each on stderr and an exit code."""
    code: object = 0
    _open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # as stderr does for characters that the terminal does not support
        sys.stdout.reconfigure(errors="backslashreplace")
    exit_on_signal(sys.argv[1:])
    try:
        app()
    except SystemExit as error:
        code = CLOSED_PIPE if isinstance(error.__context__, BrokenPipeError) else error.code
    except Exception as error:  # the outermost frame: any error ends the process
        if os.environ.get("CDC_DEBUG") == "1":
            raise
        code = _exit_code(error)
    _leave(code if isinstance(code, int) else int(code is not None))


def _open_streams() -> None:
    """Redirect streams that the caller has closed to /dev/null. Otherwise the next opened file would get their number,
    and output of this process and its children would be written to it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _exit_code(error: Exception) -> int:
    """Print an error and return its exit code, even if it cannot be printed."""
    error = _outside(error)
    try:
        return complain(error)
    except OSError:
        _give_up(2)
        return getattr(error, "exit_code", 5)


def _outside(error: Exception) -> Exception:
    """Recognize errors of the environment, a deleted working folder or an unwritable output; return others as is."""
    from cdc.errors import CdcError

    if not isinstance(error, OSError) or error.filename is not None:
        return error
    try:
        os.getcwd()
    except OSError:
        return CdcError("the working folder no longer exists", hint="change to an existing one")
    for stream in (2, 1):
        try:
            # The stream drops what it could not write, so the error has to be provoked again.
            os.write(stream, b"\n")
        except OSError as refused:
            _give_up(stream)
            return CdcError(f"cannot write the output: {refused.strerror}", hint="check where it is redirected to")
    return error


def _give_up(stream: int) -> None:
    """Redirect the rest of an unwritable output to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def _leave(code: int) -> None:
    """End the process; at once with Spark or DuckDB, as DuckDB's binding reports every object that is left."""
    ignore()
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            code = code or (CLOSED_PIPE if isinstance(error, BrokenPipeError) else _exit_code(error))
            _give_up(number)
    if {"pyspark", "duckdb"} & sys.modules.keys():
        os._exit(code)
    sys.exit(code)
