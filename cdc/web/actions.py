"""What can be done to a pipeline, from the page and by the API: one table for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc.errors import NotNow
from cdc.serve.control import Control
from cdc.web.verifying import Verifications


@dataclass(frozen=True, slots=True)
class Desk:
    """Who carries out what is asked for."""

    control: Control
    verifications: Verifications


def _table(name: str, fields: Mapping[str, str]) -> str:
    table = fields.get("table", "").strip()
    if not table:
        raise NotNow("no table was named", where=name, hint="name a table of the source: database.table")
    return table


def _resync(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    table = _table(name, fields)
    desk.control.resync(name, table)
    return f"{table} will be copied anew."


def _pause(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return desk.control.pause(name, _table(name, fields))


def _resume(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return desk.control.resume(name, _table(name, fields))


def _start(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.control.start(name)
    return "A run begins."


def _stop(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.control.stop(name)
    return "The run ends after its running batch."


def _drain(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.control.stop(name, drain=True)
    return "The run ends once everything that the log holds now is committed."


def _savepoint(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    return f"The savepoint is in {desk.control.savepoint(name)}."


def _verify(desk: Desk, name: str, fields: Mapping[str, str]) -> str:
    desk.verifications.start(name)
    return "The sink is being compared with the source."


Act = Callable[[Desk, str, Mapping[str, str]], str]
"""Does it, and says so in a sentence. Raises CdcError."""

ACTIONS: Mapping[str, Act] = {
    "start": _start,
    "stop": _stop,
    "drain": _drain,
    "savepoint": _savepoint,
    "resync": _resync,
    "pause": _pause,
    "resume": _resume,
    "verify": _verify,
}
