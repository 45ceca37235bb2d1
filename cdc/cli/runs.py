"""Commands that execute a pipeline in this process: run, compact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli.output import errors_as, say
from cdc.cli.root import EXIT_CODES, OneSink, PipelineFile, StateDirOption, app, shown_name, text_of
from cdc.printable import printable
from cdc.process.background import lower_priority

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec


@app.command(epilog=EXIT_CODES)
def run(
    file: PipelineFile,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop at the current end of the source's log.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master, such as local[4]. Default: local[*].")
    ] = None,
    state_dir: StateDirOption = None,
    log_format: Annotated[str, typer.Option(metavar="text|json", help="Format of log lines.")] = "text",
    background: Annotated[
        bool, typer.Option("--background", help="Run with low priority, and use half the cores.")
    ] = False,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append events to this file, one JSON object per line.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve metrics for Prometheus at this port (/metrics).")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="HOST", help="The address for metrics; they have no login.")
    ] = "127.0.0.1",
    from_savepoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Start with a copy of this savepoint as the state directory.")
    ] = None,
) -> None:
    """Run a pipeline until it is stopped (Ctrl-C or SIGTERM finish the running batch, a second one aborts)."""
    if log_format not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--log-format")
    with errors_as(log_format):
        if background:
            lower_priority()
        from cdc.api import load
        from cdc.job.foreground import run_to_end

        pipeline = load(shown_name(file), text=text_of(file))
        if file == "-" and pipeline.specs[0].pipeline.name is None:
            raise typer.BadParameter("a pipeline from standard input needs pipeline.name, which names its state")
        for warning in pipeline.warnings:
            say("warning", str(warning), log_format)
        if from_savepoint is not None:
            from cdc.job.savepoint import begin_from
            from cdc.job.state_location import state_root

            message = begin_from(pipeline.spec, from_savepoint, state_root(state_dir, pipeline.spec))
            say("warning", message, log_format)
        code = run_to_end(
            pipeline.specs,
            until_caught_up=until_caught_up,
            master=master,
            state_dir=state_dir,
            log_format=log_format,
            background=background,
            events=events,
            metrics=None if metrics_port is None else (metrics_host, metrics_port),
        )
    raise typer.Exit(code)


@app.command(epilog=EXIT_CODES)
def compact(
    file: PipelineFile,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Tables of the sink; default: all of the pipeline's."),
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Run with low priority.")] = False,
    sink: OneSink = None,
    state_dir: StateDirOption = None,
) -> None:
    """Merge the files of lake tables and expire old snapshots, during a run of the pipeline or without one."""
    if background:
        lower_priority()
    from cdc.errors import SinkError
    from cdc.spec.check import check_file

    specs = check_file(file).with_sink(sink).specs
    done = sum(_compact(spec, tables or (), state_dir, named=len(specs) > 1) for spec in specs)
    if not done:
        hint = "only tables of a lake are compacted: Paimon, Iceberg"
        raise SinkError("there is nothing to compact", where=f"sink {specs[0].sink.type}", hint=hint)


def _compact(spec: PipelineSpec, tables: Sequence[str], state_dir: Path | None, *, named: bool) -> int:
    """Compact tables of a sink, print what was done, and return their number; 0 for a sink without files.

    `named`: lines begin with the sink's name.
    """
    from cdc.errors import SinkError
    from cdc.job.state_location import of_sink, reading
    from cdc.source import Context
    from cdc.state.decisions import CommitLog
    from cdc.tables.log import TableLog

    with reading(None if state_dir is None else of_sink(state_dir, spec), spec) as state:
        pipeline = state.ran_pipeline(source=spec.source.type)
        known = TableLog(state.store).at(CommitLog(state.commits).committed()).sink
        spelled = {str(table): table for table in sorted(known)}
        if unknown := [name for name in tables if name not in spelled]:
            raise SinkError(f"the pipeline has no such table: {', '.join(unknown)}", where=f"sink {spec.sink.type}")
        target = spec.sink.build(Context(pipeline, state.sink))
        for number, table in enumerate([spelled[name] for name in tables] or spelled.values()):
            done = target.compact(table)
            if done is None:
                return number
            print(printable(f"{f'{spec.sink_name}: ' if named else ''}{table}: {done}"))
    return len(tables or spelled)
