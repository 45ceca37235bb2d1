"""Commands that create a pipeline: init, import."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc.cli.root import EXIT_CODES, OneSink, PipelineFile, StateDirOption, app
from cdc.printable import printable

_PASSWORD = "DB_PASSWORD"


@app.command(epilog=EXIT_CODES)
def init(
    url: Annotated[str, typer.Argument(metavar="URL", help="The source: mysql://user@host:port/database.")],
    sink: Annotated[str, typer.Option(metavar="NAME", help="The sink's connector: duckdb, doris, starrocks, ...")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write; default: stdout.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A further option of the source: tls.mode=required.")
    ] = None,
) -> None:
    """Write a commented pipeline file for the tables found on a server. The password is read from the environment
    (DB_PASSWORD) or prompted for, and is not written."""
    from cdc.init.run import init_text, parse_url
    from cdc.spec.substitute import variables

    try:
        server = parse_url(url)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="URL") from None
    pairs = [each.partition("=") for each in option or ()]
    for name, equals, _ in pairs:
        if not equals or "password" in name:
            raise typer.BadParameter("write KEY=VALUE, and no password", param_hint="--option")
    if output is not None and output.exists():
        raise typer.BadParameter(f"{output} already exists, and is not overwritten", param_hint="--output")
    password = server.password or os.environ.get(_PASSWORD) or _prompt(str(server))
    text = init_text(server, password, sink, {name: value for name, _, value in pairs}, output)
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8"))  # the encoding of pipeline files, whatever the terminal's
        return
    _write(output, text)
    needed = dict.fromkeys(name for line in text.split("\n") for name in variables(line.partition("#")[0]))
    print(printable(f"{output}: written; export {', '.join(needed)}, then run `cdc plan {output}`"), file=sys.stderr)


def _write(output: Path, text: str) -> None:
    """Write the whole file or none."""
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            with contextlib.suppress(OSError):
                output.unlink()
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}", param_hint="--output") from error


def _prompt(server: str) -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"set {_PASSWORD}: there is no terminal to prompt for the password", param_hint="URL")
    return getpass.getpass(f"Password for {printable(server)}: ")


@app.command("import", epilog=EXIT_CODES)
def import_(
    file: PipelineFile,
    position: Annotated[
        str,
        typer.Argument(metavar="POSITION", help="Another tool's position: its text, or @FILE."),
    ],
    sink: OneSink = None,
    state_dir: StateDirOption = None,
) -> None:
    """Create a pipeline that starts at the position of Debezium, Flink CDC, Canal or Maxwell, without a snapshot."""
    from cdc.job.importing import import_position
    from cdc.job.state_location import of_sink
    from cdc.spec.check import check_file

    checked = check_file(file).with_sink(sink)
    for warning in checked.warnings:
        print(printable(warning), file=sys.stderr)
    if position.startswith("@"):
        try:
            text = Path(position[1:]).read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise typer.BadParameter(f"{position[1:]}: {error.strerror}", param_hint="POSITION") from None
    else:
        text = position
    for spec in checked.specs:
        state_path = None if state_dir is None else Path(of_sink(state_dir, spec))
        message = import_position(spec, text, state_path)
        name = f"{spec.label}: " if spec.sink_name else ""
        print(printable(f"{name}the next run continues after {message}"))
