"""The command status. Reads files only, without Spark or a running server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cdc.cli.life import ROOT, StateRoot, find
from cdc.cli.output import LONGEST
from cdc.cli.root import EXIT_CODES, OneSink, app
from cdc.printable import printable


@app.command(epilog=EXIT_CODES)
def status(
    place: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE|STATE_DIR", help="A pipeline of `cdc serve`, a pipeline file, or a state directory."
        ),
    ],
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The state directory of FILE's pipeline.")
    ] = None,
    sink: OneSink = None,
    state_root: StateRoot = ROOT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole status document as JSON.")] = False,
) -> None:
    """Show the status of a pipeline, or its last one: lag, rows, phases, copies, schema changes, errors."""
    from cdc.errors import StateError
    from cdc.job.run_status import last_run
    from cdc.status.model import to_object
    from cdc.status.text import status_text

    locations = _state_locations(place, state_root, state_dir, sink)
    found = {at: last_run(at) for at in locations}
    if not any(found.values()):
        hint = "give the pipeline file or the --state-dir that it runs with"
        raise StateError("no run has written its status here", where=str(locations[0]), hint=hint)
    documents = [
        {**to_object(seen.status), "state": seen.state, "alive": seen.alive}
        for seen in found.values()
        if seen is not None
    ]
    if as_json:
        print(json.dumps(documents[0] if len(locations) == 1 else documents, indent=2))
        return
    for at, seen in found.items():
        for line in status_text(seen) if seen is not None else (f"{at}: no run has written its status here",):
            print(printable(line, longest=LONGEST))


def _state_locations(name: str, state_root: Path, state_dir: Path | None, sink: str | None) -> list[str | Path]:
    of_sinks = sorted(Path(name, "sinks").glob("*/")) if Path(name).is_dir() else []
    if of_sinks:
        return [at for at in of_sinks if sink is None or at.name == sink]
    named = "://" in name or Path(name).is_dir()
    return [name] if named else [target.root for target in find(name, state_root, state_dir, sink)]
