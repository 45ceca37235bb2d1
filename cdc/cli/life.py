"""Commands for pipelines in other processes: list, start, stop, savepoint, pause, resume, resync, logs.

They call a running `cdc serve`; for a pipeline of `cdc run` they write a request to its state directory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.cli.output import LONGEST
from cdc.cli.root import EXIT_CODES, OneSink, app
from cdc.printable import printable

if TYPE_CHECKING:
    from cdc.serve.client import Served
    from cdc.spec.model import PipelineSpec

_STOP_S = 120.0
_LOOK_S = 0.1

StateRoot = Annotated[
    Path,
    typer.Option(
        "--state-root",
        metavar="DIR",
        envvar="CDC_STATE_ROOT",
        help="The state root of `cdc serve`: DIR/.cdc for its DIR.",
    ),
]
StateDirectory = Annotated[
    Path | None, typer.Option("--state-dir", metavar="DIR", help="The state directory of FILE's pipeline.")
]
NameOrFile = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A pipeline of `cdc serve`, or a pipeline file.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The source's table: database.table.")]
ROOT = Path(".cdc")
"""The default of `--state-root`."""


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The pipeline of a command. `spec` is set if it was given by its file."""

    name: str
    root: Path
    spec: PipelineSpec | None

    def server(self) -> Served | None:
        """Return the running server that has it, None without one."""
        from cdc.serve.client import find_server

        found = find_server(self.root.parent)
        known = () if found is None else [each["name"] for each in found.get("pipelines")["pipelines"]]
        return found if self.name in known else None


def find(name_or_file: str, state_root: Path, state_dir: Path | None, sink: str | None = None) -> list[CommandTarget]:
    """Resolve NAME or FILE to a pipeline, once per sink or for one sink. Raises SpecError, StateError."""
    from cdc.job.state_location import folder_name, of_sink, root_of_states
    from cdc.job.state_location import state_root as of_file
    from cdc.spec.check import check_file

    if name_or_file != "-" and not name_or_file.endswith((".yaml", ".yml")) and not Path(name_or_file).is_file():
        return [CommandTarget(name_or_file, root_of_states(state_root).absolute() / folder_name(name_or_file), None)]
    checked = check_file(name_or_file)
    return [
        CommandTarget(
            spec.label, of_file(None if state_dir is None else of_sink(state_dir, spec), spec).absolute(), spec
        )
        for spec in checked.with_sink(sink).specs
    ]


@app.command("list", epilog=EXIT_CODES)
def list_pipelines(
    state_root: StateRoot = ROOT, as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False
) -> None:
    """List the pipelines of a running `cdc serve`: state, lag, next run, last error."""
    from cdc.errors import StateError
    from cdc.job.state_location import root_of_states
    from cdc.serve.client import find_server

    server = find_server(root_of_states(state_root))
    if server is None:
        hint = "name its --state-root; `cdc status FILE` shows a pipeline without it"
        raise StateError("no server is running here", where=str(state_root), hint=hint)
    found = server.get("pipelines")["pipelines"]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for line in _table(found):
        print(printable(line, longest=LONGEST))


@app.command(epilog=EXIT_CODES)
def start(name: Annotated[str, typer.Argument(metavar="NAME")], state_root: StateRoot = ROOT) -> None:
    """Let `cdc serve` start a run now, regardless of the schedule; earlier failures are forgotten."""
    _post_action(find(name, state_root, None)[0], "start")


@app.command(epilog=EXIT_CODES)
def stop(
    name_or_file: NameOrFile,
    drain: Annotated[bool, typer.Option("--drain", help="First commit up to the current end of the log.")] = False,
    sink: OneSink = None,
    state_root: StateRoot = ROOT,
    state_dir: StateDirectory = None,
) -> None:
    """Stop the run of a pipeline after its running batch, and wait for its end. `cdc serve` starts no other."""
    from cdc.status.file import read_status

    targets = find(name_or_file, state_root, state_dir, sink)
    running = [target for target in targets if (seen := read_status(target.root)) is not None and seen.alive]
    waits = [(target, _request_stop(target, drain=drain)) for target in running or targets]
    for target, ended in waits:
        _wait(ended, target)
        print(printable(f"{target.name}: stopped"))


def _request_stop(target: CommandTarget, *, drain: bool) -> Callable[[], bool]:
    """Request a run to stop; return a function that tells whether it has ended."""
    from cdc.job.run_status import request_end

    server = target.server()
    if server is not None:
        server.post(target.name, "drain" if drain else "stop")
        return lambda: server.one(target.name)["state"] not in _ENDING
    return request_end(target.name, target.root, drain=drain)


_ENDING = ("starting", "running", "stopping")


@app.command(epilog=EXIT_CODES)
def savepoint(
    name_or_file: NameOrFile, sink: OneSink = None, state_root: StateRoot = ROOT, state_dir: StateDirectory = None
) -> None:
    """Make a copy of a pipeline's state, to start from later, and print its folder. A run continues afterwards."""
    from cdc.job.savepoint import create_savepoint

    for target in find(name_or_file, state_root, state_dir, sink):
        server = target.server()
        if server is not None:
            print(printable(server.post(target.name, "savepoint"), longest=LONGEST))
        elif target.spec is not None:
            print(printable(create_savepoint(target.spec, target.root), longest=LONGEST))
        else:
            raise _unknown_pipeline(target)


@app.command(epilog=EXIT_CODES)
def pause(
    name_or_file: NameOrFile,
    table: Table,
    sink: OneSink = None,
    state_root: StateRoot = ROOT,
    state_dir: StateDirectory = None,
) -> None:
    """Skip one table from the next batch on, until it is resumed. The sink's table stays as it is."""
    from cdc.job.pausing import request_pause

    _about_table(find(name_or_file, state_root, state_dir, sink), "pause", table, request_pause)


@app.command(epilog=EXIT_CODES)
def resume(
    name_or_file: NameOrFile,
    table: Table,
    sink: OneSink = None,
    state_root: StateRoot = ROOT,
    state_dir: StateDirectory = None,
) -> None:
    """Process a paused table again: it is re-snapshotted into a shadow table first."""
    from cdc.job.pausing import request_resume

    _about_table(find(name_or_file, state_root, state_dir, sink), "resume", table, request_resume)


@app.command(epilog=EXIT_CODES)
def resync(
    name_or_file: NameOrFile,
    table: Table,
    sink: OneSink = None,
    state_root: StateRoot = ROOT,
    state_dir: StateDirectory = None,
) -> None:
    """Re-snapshot one table into a shadow table, at once in a running pipeline, else in the next run."""
    from cdc.job.resync import request_resync

    def request(spec: PipelineSpec, table: str, root: Path | None) -> str:
        request_resync(spec, table, root)
        return f"{table} will be re-snapshotted."

    _about_table(find(name_or_file, state_root, state_dir, sink), "resync", table, request)


def _about_table(
    targets: Sequence[CommandTarget], action: str, table: str, request: Callable[[PipelineSpec, str, Path | None], str]
) -> None:
    for target in targets:
        server = target.server()
        if server is not None:
            message = server.post(target.name, action, table=table)
        elif target.spec is not None:
            message = request(target.spec, table, target.root)
        else:
            raise _unknown_pipeline(target)
        print(printable(message if len(targets) == 1 else f"{target.name}: {message}", longest=LONGEST))


@app.command(epilog=EXIT_CODES)
def logs(
    name_or_file: NameOrFile,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=100_000, help="Number of lines.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    state_root: StateRoot = ROOT,
    state_dir: StateDirectory = None,
) -> None:
    """Show the last lines of a pipeline's log under `cdc serve`."""
    from cdc.serve.log_file import read_log

    target = find(name_or_file, state_root, state_dir)[0]
    lines = read_log(target.root, last)
    if not lines:
        raise _unknown_pipeline(target)
    for line in lines:
        if as_json:
            print(json.dumps(asdict(line)))
            continue
        fields = "".join(f" {key}={value}" for key, value in line.fields.items())
        mark = "" if line.level == "info" else f"{line.level}: "
        print(printable(f"{_time(line.at_s)} {mark}{line.message}{fields}", longest=LONGEST))


def _post_action(target: CommandTarget, action: str) -> None:
    server = target.server()
    if server is None:
        raise _unknown_pipeline(target)
    print(printable(server.post(target.name, action), longest=LONGEST))


def _unknown_pipeline(target: CommandTarget) -> Exception:
    from cdc.errors import PipelineUnknown

    hint = "name the --state-root of a running server, and a pipeline that `cdc list` shows"
    return PipelineUnknown("no running server has it", where=target.name, hint=hint)


def _wait(ended: Callable[[], bool], target: CommandTarget) -> None:
    from cdc.errors import NotNow
    from cdc.retry import RetryPolicy

    policy, left_s = RetryPolicy(), _STOP_S
    while not ended():
        if left_s <= 0:
            hint = "the running batch continues; the run ends after it"
            raise NotNow(f"has not ended after {_STOP_S:.0f} s", where=target.name, hint=hint)
        policy.wait(_LOOK_S)
        left_s -= _LOOK_S


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Format the list for people."""
    head = ["NAME", "STATE", "ATTENTION", "FROM", "TO", "ROWS", "LAG", "NEXT RUN", "RESTARTS", "PAUSED", "LAST ERROR"]
    rows = [head, *(_row(each) for each in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(head) - 1)]
    return [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]


def _row(each: dict[str, Any]) -> list[str]:
    error = each["last_error"]
    problem = "; ".join(each["file_errors"]) or ("" if error is None else f"{error['type']}: {error['message']}")
    lag = "" if each["lag_s"] is None else f"{each['lag_s']:.1f} s"
    next_run = "" if each["next_run_s"] is None else _time(each["next_run_s"])
    return [
        each["name"], each["state"], each["attention"], each["source"], each["sink"], f"{each['rows']:,}", lag,
        next_run, str(each["restarts"]), ", ".join(each["paused"]), problem,
    ]  # fmt: skip


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
