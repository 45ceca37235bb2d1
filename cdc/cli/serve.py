"""The process that keeps the pipelines of a folder: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc.cli.root import EXIT_CODES, app


@app.command(epilog=EXIT_CODES)
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the pipeline files.")],
    state_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where each pipeline gets a folder for its state.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master for all of them. Default: local[*].")
    ] = None,
) -> None:
    """Keep the pipelines of a folder running, or run them on their schedule, until Ctrl-C or SIGTERM."""
    from cdc.serve.server import Server, Settings, end_on_signals, quiet_libraries

    if not folder.is_dir():
        raise typer.BadParameter("is no folder", param_hint="DIR")
    root = folder / ".cdc" if state_root is None else state_root
    server = Server(Settings(folder.absolute(), root.absolute(), master))
    quiet_libraries()
    end_on_signals(server)
    server.run()
