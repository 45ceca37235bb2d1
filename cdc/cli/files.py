"""Commands for pipeline files that do not run them: validate, plan, test, schema."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cdc.cli.output import LONGEST, LONGEST_OF_PLAN, complain
from cdc.cli.root import EXIT_CODES, OneSink, PipelineFile, StateDirOption, app, shown_name, text_of
from cdc.errors import SinkError
from cdc.printable import printable

AsJson = Annotated[bool, typer.Option("--json", help="As one JSON document.")]


@app.command(epilog=EXIT_CODES)
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Pipeline files; - is standard input.")],
    as_json: AsJson = False,
) -> None:
    """Check pipeline files and show every mistake with its line and column. Connects to nothing."""
    import gc

    gc.disable()  # the process ends before there is much to collect, and imports take most of its time

    import cdc

    failed, results = False, list[dict[str, Any]]()
    for file in files:
        found = cdc.validate(shown_name(file), text=text_of(file))
        failed = failed or not found.ok
        if as_json:
            problems, warnings = [[asdict(each) for each in part] for part in found]
            results.append({"file": file, "ok": found.ok, "problems": problems, "warnings": warnings})
            continue
        for line in (*found.problems, *found.warnings):
            print(printable(line, longest=LONGEST), file=sys.stderr)
        if found.ok:
            print(printable(f"{file}: ok"))
    if as_json:
        print(json.dumps(results, indent=2))
    raise typer.Exit(2 if failed else 0)


@app.command(epilog=EXIT_CODES)
def plan(
    file: PipelineFile,
    as_json: AsJson = False,
    sink: OneSink = None,
    state_dir: StateDirOption = None,
) -> None:
    """Connect to source and sink and show what a run would do: tables, routes, schemas, statements. Changes nothing.

    For a pipeline that has run before: also later edits of its rules and changes of the sink's tables, and running
    snapshots with their reasons.
    """
    import cdc
    from cdc.job.snapshot_monitor import snapshots_in_progress
    from cdc.job.state_location import of_sink, reading

    pipeline = cdc.load(shown_name(file), text=text_of(file))
    for warning in pipeline.warnings:
        print(printable(warning, longest=LONGEST), file=sys.stderr)
    names = [spec.sink_name for spec in pipeline.specs] if sink is None else [sink]
    documents, plans, failed = [], [], 0
    for one in (pipeline.with_sink(name) for name in names):
        state_path = None if state_dir is None else of_sink(state_dir, one.spec)
        if one.spec.sink_name and not as_json:
            print(printable(f"sink {one.spec.sink_name}:"), flush=True)
        try:
            found = cdc.plan(one, state_dir=state_dir)
        except SinkError as error:
            if len(names) == 1:
                raise
            failed = failed or complain(error)  # the other sinks are still planned
            documents.append({"sink": one.spec.sink_name, "error": json.loads(error.to_json())})
            continue
        with reading(state_path, one.spec) as state:
            copies = list(snapshots_in_progress(state.store))
        plans.append(found)
        documents.append({**found.to_json(), "under_way": copies})
        for line in () if as_json else (*str(found).split("\n"), *(f"under way: {line}" for line in copies)):
            print(printable(line, longest=LONGEST_OF_PLAN))
    if as_json:
        print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    for found in plans:
        found.check()
    raise typer.Exit(failed)


@app.command(epilog=EXIT_CODES)
def test(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Pipeline files.")]) -> None:
    """Run the tests next to pipeline files (FILE.test.yaml): input rows and changes, expected output. No servers."""
    import gc

    gc.disable()  # as in `validate`

    from cdc.process.without_pandas import hide_pandas
    from cdc.testing.command import run_tests

    hide_pandas()
    failed = 0
    for file in files:
        outcomes = list(run_tests(file))
        failures = [outcome for outcome in outcomes if outcome.differences]
        for outcome in failures:
            print(printable(f"{outcome.where}: {outcome.name}: failed", longest=LONGEST))
            for line in outcome.differences:
                print(printable(f"  {line}", longest=LONGEST_OF_PLAN))
        count = f"{len(outcomes)} test{'' if len(outcomes) == 1 else 's'}"
        print(printable(f"{file}: {count}{f', {len(failures)} failed' if failures else ' passed'}"))
        failed += len(failures)
    raise typer.Exit(1 if failed else 0)


@app.command(epilog=EXIT_CODES)
def schema(
    connector: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this connector, such as source/mysql or sink/duckdb.")
    ] = None,
) -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    from cdc.spec import schemas

    try:
        document = schemas.bundle() if connector is None else schemas.connector(connector)
    except LookupError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--connector") from error
    print(json.dumps(document, indent=2))
