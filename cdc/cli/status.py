"""How a pipeline is: status. Reads files only; needs neither Spark nor a running server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cdc.cli.output import LONGEST
from cdc.cli.root import EXIT_CODES, app
from cdc.printed import printed


@app.command(epilog=EXIT_CODES)
def status(
    place: Annotated[str, typer.Argument(metavar="FILE|STATE_DIR", help="The pipeline file, or its state directory.")],
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the pipeline of FILE keeps its progress.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole status document as JSON.")] = False,
) -> None:
    """Show how a pipeline is, or was when it ended: lag, rows, phases, copies, schema changes, errors."""
    from cdc.errors import StateError
    from cdc.status.file import read_status
    from cdc.status.model import to_object
    from cdc.status.text import status_text

    root = _root(place, state_dir)
    seen = read_status(root)
    if seen is None:
        hint = "give the pipeline file or the --state-dir that it runs with"
        raise StateError("no run has told its status here", where=str(root), hint=hint)
    if as_json:
        print(json.dumps({**to_object(seen.status), "state": seen.state, "alive": seen.alive}, indent=2))
        return
    for line in status_text(seen):
        print(printed(line, longest=LONGEST))


def _root(place: str, state_dir: Path | None) -> Path:
    from cdc.job.state_location import state_root
    from cdc.spec.check import check_file

    if Path(place).is_dir():
        return Path(place)
    return state_root(state_dir, check_file(place).spec)
