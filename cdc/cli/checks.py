"""Commands that look at a pipeline and its servers and change nothing: verify, doctor."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.background import give_way
from cdc.cli.output import LONGEST, LONGEST_OF_PLAN
from cdc.cli.root import EXIT_CODES, PipelineFile, StateDirOption, app
from cdc.printed import printed

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
        bool, typer.Option("--deep", help="Name every row that differs (1000 of a table), with the values.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long the pipeline may take to commit what was read in the source."),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Ask for tables that differ to be copied anew.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    background: Annotated[bool, typer.Option("--background", help="Give way to everything else here.")] = False,
    state_dir: StateDirOption = None,
) -> None:
    """Compare the sink's tables with the source's, running or not. Exit code 1: not all are equal."""
    from cdc.verify.repair import repair as mended
    from cdc.verify.run import Settings
    from cdc.verify.run import verify as compare

    if background:
        give_way()
    spec = _checked(file)

    def told(report: TableReport) -> None:
        for line in () if as_json else report.lines():
            print(printed(line, longest=LONGEST_OF_PLAN), flush=True)

    found = compare(spec, state_dir, Settings(tables, deep, wait), told)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        print(found.summary)
    if repair:
        for line in mended(spec, found, state_dir):
            print(printed(line, longest=LONGEST), file=sys.stderr)
    raise typer.Exit(0 if found.equal else 1)


@app.command(epilog=EXIT_CODES)
def doctor(
    file: PipelineFile,
    state_dir: StateDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at the source, the sink and this machine, and say what to do about each thing that is missing."""
    from cdc.doctor.run import examine

    spec = _checked(file)
    found = []
    for each in examine(spec, state_dir):
        found.append(each)
        for line in () if as_json else each.lines():
            print(printed(line, longest=LONGEST_OF_PLAN), flush=True)
    if as_json:
        print(json.dumps({"findings": [each.to_json() for each in found]}, indent=2))
    raise typer.Exit(max((each.exit_code for each in found), default=0))


def _checked(file: str) -> PipelineSpec:
    """The pipeline, once its warnings are told."""
    from cdc.spec.check import check_file

    checked = check_file(file)
    for warning in checked.warnings:
        print(printed(warning, longest=LONGEST), file=sys.stderr)
    return checked.spec
