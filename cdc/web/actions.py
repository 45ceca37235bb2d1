"""What can be done to a pipeline, from the page and by the API: one table for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.errors import NotNow
from cdc.serve.control import Control


def _resync(control: Control, name: str, fields: Mapping[str, str]) -> str:
    table = fields.get("table", "").strip()
    if not table:
        raise NotNow("no table was named", where=name, hint="name a table of the source: database.table")
    control.resync(name, table)
    return f"{table} will be copied anew."


def _start(control: Control, name: str, fields: Mapping[str, str]) -> str:
    control.start(name)
    return "A run begins."


def _stop(control: Control, name: str, fields: Mapping[str, str]) -> str:
    control.stop(name)
    return "The run ends after its running batch."


def _drain(control: Control, name: str, fields: Mapping[str, str]) -> str:
    control.stop(name, drain=True)
    return "The run ends once everything that the log holds now is committed."


def _savepoint(control: Control, name: str, fields: Mapping[str, str]) -> str:
    return f"The savepoint is in {control.savepoint(name)}."


Act = Callable[[Control, str, Mapping[str, str]], str]
"""Does it, and says so in a sentence. Raises CdcError."""

ACTIONS: Mapping[str, Act] = {
    "start": _start,
    "stop": _stop,
    "drain": _drain,
    "savepoint": _savepoint,
    "resync": _resync,
}
