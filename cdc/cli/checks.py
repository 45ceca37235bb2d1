"""Commands that examine a pipeline and its servers without changing anything: verify, doctor."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli.output import LONGEST, LONGEST_OF_PLAN, complain
from cdc.cli.root import EXIT_CODES, OneSink, PipelineFile, StateDirOption, app
from cdc.errors import NotNow, SinkError, StateError
from cdc.printable import printable
from cdc.process.background import lower_priority

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec
    from cdc.verify.report import TableReport


@app.command(epilog=EXIT_CODES)
def verify(
    file: PipelineFile,
    tables: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only source tables that match, as in `tables` of a source.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Show every differing row (1000 per table), with the values.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long to wait until the pipeline has committed what was read in the source."
        ),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Request a re-snapshot of tables that differ.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    background: Annotated[bool, typer.Option("--background", help="Run with low priority.")] = False,
    sink: OneSink = None,
    state_dir: StateDirOption = None,
) -> None:
    """Compare the sink's tables with the source's, whether the pipeline runs or not. Exit code 1: not all are equal.

    Every sink of several is compared: an error of one is reported, and gives the exit code.
    """
    from cdc.verify.repair import repair as mended
    from cdc.verify.run import verify as compare
    from cdc.verify.table_verifier import VerifySettings

    if background:
        lower_priority()

    def show(report: TableReport) -> None:
        for line in () if as_json else report.lines():
            print(printable(line, longest=LONGEST_OF_PLAN), flush=True)

    documents, equal, failed = [], True, 0
    for spec, state_path in _of_sinks(file, sink, state_dir, as_json=as_json):
        try:
            found = compare(spec, state_path, VerifySettings(tables, deep, wait), show)
        except (SinkError, StateError, NotNow) as error:
            if not spec.sink_name or sink is not None:
                raise
            failed = failed or complain(error)  # the other sinks are still compared
            documents.append({"error": json.loads(error.to_json()), **_sink_field(spec)})
            continue
        documents.append({**found.to_json(), **_sink_field(spec)})
        equal = equal and found.equal
        if not as_json:
            print(found.summary)
        for line in mended(spec, found, state_path) if repair else ():
            print(printable(line, longest=LONGEST), file=sys.stderr)
    if as_json:
        print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    raise typer.Exit(failed or (0 if equal else 1))


@app.command(epilog=EXIT_CODES)
def doctor(
    file: PipelineFile,
    sink: OneSink = None,
    state_dir: StateDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the source, the sink and this machine, and show how to fix each problem."""
    from cdc.doctor.run import examine

    found, documents = [], []
    for spec, state_path in _of_sinks(file, sink, state_dir, as_json=as_json):
        for each in examine(spec, state_path):
            found.append(each)
            documents.append({**each.to_json(), **_sink_field(spec)})
            for line in () if as_json else each.lines():
                print(printable(line, longest=LONGEST_OF_PLAN), flush=True)
    if as_json:
        print(json.dumps({"findings": documents}, indent=2))
    raise typer.Exit(max((each.exit_code for each in found), default=0))


def _of_sinks(
    file: str, sink: str | None, state_dir: Path | None, *, as_json: bool
) -> Iterator[tuple[PipelineSpec, Path | None]]:
    """Yield the pipeline with each sink, or with one, and its state directory; prints warnings and names."""
    from cdc.job.state_location import of_sink
    from cdc.spec.check import check_file

    checked = check_file(file)
    for warning in checked.warnings:
        print(printable(warning, longest=LONGEST), file=sys.stderr)
    for spec in checked.with_sink(sink).specs:
        if spec.sink_name and not as_json:
            print(printable(f"sink {spec.sink_name}:"), flush=True)
        yield spec, None if state_dir is None else Path(of_sink(state_dir, spec))


def _sink_field(spec: PipelineSpec) -> dict[str, str]:
    return {"sink": spec.sink_name} if spec.sink_name else {}
