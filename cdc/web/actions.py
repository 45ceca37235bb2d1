"""Actions on a pipeline, common to the page and the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cdc.errors import BadRequest, CdcError
from cdc.serve.control import RUNNING, Control
from cdc.web.verifying import Verifications


@dataclass(frozen=True, slots=True)
class Desk:
    """The objects that execute requests."""

    control: Control
    verifications: Verifications


def _table(name: str, fields: Mapping[str, str]) -> str:
    table = fields.get("table", "").strip()
    if not table:
        raise BadRequest("no table was given", where=name, hint="name a table of the source: database.table")
    return table


def _resync(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    table = _table(name, fields)
    desk.control.resync(name, table)
    return f"{table} will be re-snapshotted."


def _pause(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return desk.control.pause(name, _table(name, fields))


def _resume(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return desk.control.resume(name, _table(name, fields))


def _start(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.control.start(name)
    return "A run is starting."


def _stop(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return _end(desk, name, "The run stops after its running batch.", drain=False)


def _drain(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return _end(desk, name, "The run stops once everything up to the current end of the log is committed.", drain=True)


def _end(desk: Desk, name: str, answer: str, *, drain: bool) -> str:
    """Stop a pipeline; return `answer` if it has a run."""
    runs = desk.control.pipeline(name).state in RUNNING
    desk.control.stop(name, drain=drain)
    return answer if runs else "No run will begin until it is started."


def _savepoint(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return f"The savepoint is in {desk.control.savepoint(name)}."


def _verify(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.verifications.start(name)
    return "The sink is being compared with the source."


Act = Callable[[Desk, str, Mapping[str, str]], str]
"""Executes an action and returns a message. Raises CdcError."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a POST. `fields` are the allowed members of its object, `text` is for people."""

    act: Act
    text: str
    fields: tuple[str, ...] = ()

    def carry_out(self, desk: Desk, name: str, fields: Mapping[str, str]) -> str:
        """Execute the action on a pipeline and return a message. Raises CdcError, BadRequest for unknown fields."""
        for field in fields:
            if field not in self.fields:
                hint = f"there are: {', '.join(self.fields)}" if self.fields else "this action has none"
                raise BadRequest("is unknown", where=f"field {field[:50]}", hint=hint)
        return self.act(desk, name, fields)


ACTIONS: Mapping[str, Action] = {
    "start": Action(_start, "Start a run now"),
    "stop": Action(_stop, "Stop the run after its batch"),
    "drain": Action(_drain, "Stop the run once everything up to the current end of the log is committed"),
    "savepoint": Action(_savepoint, "Make a copy of the state"),
    "resync": Action(_resync, "Re-snapshot a table", ("table",)),
    "pause": Action(_pause, "Skip a table; the sink's table stays as it is", ("table",)),
    "resume": Action(_resume, "Re-snapshot a paused table, and process it again", ("table",)),
    "verify": Action(_verify, "Compare its sink with its source, in the background; one comparison at a time"),
}


def act_on_several(desk: Desk, action: str, names: Sequence[str]) -> str:
    """Execute an action on several pipelines; return one message, with the reasons of refusals."""
    if not names:
        raise BadRequest("no pipeline is chosen", hint="choose some in the list first")
    done, refused = 0, list[str]()
    for name in names:
        try:
            ACTIONS[action].carry_out(desk, name, {})
            done += 1
        except CdcError as error:
            refused.append(f"{name}: {error.message}")
    message = f"{action}: {done} of {len(names)} pipelines"
    return f"{message}. Not: {'; '.join(refused)}" if refused else f"{message}."
