"""The command line: argv to calls. The only place that prints results and exits."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cdc import __version__
from cdc.background import give_way
from cdc.dev import DevGroup
from cdc.printed import printed, printed_field
from cdc.signals import ignore, leave_at_once

_LONGEST = 2_000
"""Characters of an error: its place, what happened and the next step are cut one by one before."""
_LONGEST_OF_PLAN = 100_000
"""Characters of a line of a plan: a statement is shown whole."""

EXIT_CODES = """
Exit codes: 0 done; 1 a test of `cdc test` failed; 2 the pipeline file or the command line is wrong; 3 the source
failed; 4 the sink failed; 5 the engine failed (Spark, Java, the state directory); 130 a second signal ended the run at
once. CDC_DEBUG=1 shows where an error came from.
"""

app = typer.Typer(
    name="cdc",
    help="Change data capture pipelines in YAML: MySQL and MariaDB binlogs to tables, exactly once.",
    epilog=" ".join(EXIT_CODES.split()),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

dev = typer.Typer(cls=DevGroup, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(dev, name="dev", help="Servers on this machine, to try pipelines without a cluster.")

PipelineFile = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cdc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command(epilog=EXIT_CODES)
def validate(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Pipeline files.")]) -> None:
    """Check pipeline files: every mistake with its line and column. Connects to nothing."""
    import gc

    gc.disable()  # the process is over before there is anything worth collecting, and imports are most of its time

    import cdc

    failed = False
    for file in files:
        found = cdc.validate(file)
        for line in (*found.problems, *found.warnings):
            print(printed(line, longest=_LONGEST), file=sys.stderr)
        if found.ok:
            print(printed(f"{file}: ok"))
        failed = failed or not found.ok
    raise typer.Exit(2 if failed else 0)


@app.command(epilog=EXIT_CODES)
def plan(file: PipelineFile) -> None:
    """Connect to source and sink and show what would be done: tables, routes, schemas, statements. Changes nothing."""
    import cdc

    pipeline = cdc.load(file)
    for warning in pipeline.warnings:
        print(printed(warning, longest=_LONGEST), file=sys.stderr)
    found = cdc.plan(pipeline)
    for line in str(found).split("\n"):
        print(printed(line, longest=_LONGEST_OF_PLAN))
    found.check()


@app.command(epilog=EXIT_CODES)
def test(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Pipeline files.")]) -> None:
    """Run the tests beside pipeline files (FILE.test.yaml): rows and schema changes in, expected out. No servers."""
    import gc

    gc.disable()  # as in `validate`

    from cdc.testing.command import run_tests
    from cdc.without_pandas import keep_pandas_out

    keep_pandas_out()
    failed = 0
    for file in files:
        outcomes = list(run_tests(file))
        wrong = [outcome for outcome in outcomes if outcome.differences]
        for outcome in wrong:
            print(printed(f"{outcome.where}: {outcome.name}: failed", longest=_LONGEST))
            for line in outcome.differences:
                print(printed(f"  {line}", longest=_LONGEST_OF_PLAN))
        count = f"{len(outcomes)} test{'' if len(outcomes) == 1 else 's'}"
        print(printed(f"{file}: {count}{f', {len(wrong)} failed' if wrong else ' passed'}"))
        failed += len(wrong)
    raise typer.Exit(1 if failed else 0)


@app.command(epilog=EXIT_CODES)
def run(
    file: PipelineFile,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop at what the source's log holds now.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master, such as local[4]. Default: local[*].")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the pipeline keeps its progress.")
    ] = None,
    log_format: Annotated[str, typer.Option(metavar="text|json", help="How log lines are written.")] = "text",
    background: Annotated[
        bool, typer.Option("--background", help="Give way to everything else on this machine, and use half its cores.")
    ] = False,
) -> None:
    """Run a pipeline until it is stopped (Ctrl-C or SIGTERM finish the running batch; a second one aborts)."""
    if log_format not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--log-format")
    with _errors_as(log_format):
        if background:
            give_way()
        from cdc.api import load, run_here

        pipeline = load(file)
        for warning in pipeline.warnings:
            _say("warning", str(warning), log_format)
        code = run_here(
            pipeline,
            until_caught_up=until_caught_up,
            master=master,
            state_dir=state_dir,
            log_format=log_format,
            background=background,
        )
    raise typer.Exit(code)


@app.command(epilog=EXIT_CODES)
def resync(
    file: PipelineFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The source's table: database.table.")],
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the pipeline keeps its progress.")
    ] = None,
) -> None:
    """Copy one table anew, beside its rows. A running pipeline does it at once, another in its next run."""
    from cdc.job.resync import request_resync
    from cdc.spec.check import check_file

    checked = check_file(file)
    for warning in checked.warnings:
        print(printed(warning, longest=_LONGEST), file=sys.stderr)
    request_resync(checked.spec, table, state_dir)
    print(printed(f"{table}: will be copied anew"))


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
    print(json.dumps(document, indent=2, ensure_ascii=False))


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
        code = _complain(error)
    _leave(code if isinstance(code, int) else int(code is not None))


def _leave(code: int) -> None:
    """End the process; after a run at once, as DuckDB's binding reports every object that outlives it."""
    ignore()
    sys.stdout.flush()
    sys.stderr.flush()
    if "pyspark" in sys.modules:
        os._exit(code)
    sys.exit(code)


@contextmanager
def _errors_as(log_format: str) -> Iterator[None]:
    """Errors in the block end the command; as JSON lines when that is the format of the log."""
    try:
        yield
    except Exception as error:
        if log_format == "text" or os.environ.get("CDC_DEBUG") == "1":
            raise
        raise typer.Exit(_complain(error, log_format)) from None


def _complain(error: Exception, log_format: str = "text") -> int:
    """Print an error for people, or as JSON lines, and return its exit code."""
    from cdc.errors import CdcError, SpecError

    if isinstance(error, SpecError):
        for problem in error.problems:
            _say("error", str(problem), log_format)
        return error.exit_code
    if isinstance(error, CdcError):
        parts = {"error": type(error).__name__, "where": error.where, "hint": error.hint}
        shown = CdcError(printed(error.message), where=printed(error.where), hint=printed(error.hint))
        text = error.message if log_format == "json" else f"cdc: {shown}"
        _say("error", text, log_format, exit_code=error.exit_code, **parts)
        return error.exit_code
    text = f"internal error: {type(error).__name__}: {error} (CDC_DEBUG=1 shows where)"
    _say("error", text if log_format == "json" else f"cdc: {text}", log_format, exit_code=CdcError.exit_code)
    return CdcError.exit_code


def _say(level: str, message: str, log_format: str, **fields: object) -> None:
    """One line on stderr; `fields` are for JSON only."""
    if log_format == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        fields = printed_field({"message": message, **fields})
        print(json.dumps({"time": now, "level": level, **fields}), file=sys.stderr)
    else:
        print(printed(message, longest=_LONGEST), file=sys.stderr)
