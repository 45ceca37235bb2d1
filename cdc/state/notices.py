"""Notices of the source for people, on their way from the stream reader to the driver's log.

    <state>/notices.jsonl       one line per notice, on disk before its batch is planned
    <state>/notices_shown.json  {"shown": 3}: how many of them the driver has shown

A notice is therefore shown at once, even on an idle pipeline, and by the next run if the run was killed before.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from cdc.errors import StateError
from cdc.state.store import Store

_LOG, _SHOWN = "notices.jsonl", "notices_shown.json"
_MOST = 1000
"""Shown notices are kept for troubleshooting up to this number."""


class Notices:
    """The notices of a pipeline. The stream reader adds them, the driver shows them. All methods raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store, self._log = store, store.log(_LOG, "log of notices")
        self._shown: int | None = None

    def add(self, notices: Iterable[str]) -> None:
        """Add notices; they are on disk when this returns. Stream reader process."""
        self._log.append(*({"notice": notice} for notice in notices))

    def drain(self) -> list[str]:
        """The notices that have not been shown yet. Driver, several times a second."""
        if self._shown is None:
            fields = self._store.read_json(_SHOWN)
            self._shown = 0 if fields is None else int(fields["shown"])
        count = len(self._log)
        if count == self._shown:
            return []
        found = [str(item["notice"]) for item in self._log.items(min(self._shown, count), count)]
        self._shown = count
        with suppress(StateError):  # the next run shows them again
            self._store.write_json_later(_SHOWN, {"shown": count})
        return found

    def begin(self) -> None:
        """Remove shown notices if there are many. Driver, at the start of a run."""
        fields = self._store.read_json(_SHOWN)
        if fields is not None and int(fields["shown"]) >= _MOST and int(fields["shown"]) == len(self._log):
            self._log.truncate(0)
            self._store.write_json(_SHOWN, {"shown": 0})
