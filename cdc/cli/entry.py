"""Where the `cdc` command begins and ends. The only place that exits."""

from __future__ import annotations

import os
import sys

from cdc.cli.output import complain
from cdc.cli.root import app
from cdc.signals import ignore, leave_at_once


def main() -> None:
    """Entry point of the `cdc` command: errors become one line each on stderr and an exit code."""
    code: object = 0
    leave_at_once(sys.argv[1:])
    try:
        app()
    except SystemExit as error:
        code = error.code
    except Exception as error:  # the outermost frame: whatever comes here ends the process
        if os.environ.get("CDC_DEBUG") == "1":
            raise
        code = complain(error)
    _leave(code if isinstance(code, int) else int(code is not None))


def _leave(code: int) -> None:
    """End the process; after a run at once, as DuckDB's binding reports every object that outlives it."""
    ignore()
    sys.stdout.flush()
    sys.stderr.flush()
    if "pyspark" in sys.modules:
        os._exit(code)
    sys.exit(code)
