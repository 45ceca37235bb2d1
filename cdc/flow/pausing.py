"""Tables that are paused and resumed one by one, while the pipeline goes on with the others. Driver.

    cdc pause T   --> from the next batch on rows and schema changes of T are left out: its sink tables stay as they are
    cdc resume T  --> its source is asked for a copy, which has all that was left out; T goes on where it begins

What is asked for is a file in the state directory until the batch is decided that it holds from:

    <state>/requests/<number>-<random>.json    {"table": ["shop", "orders"], "pause": true}

A batch that runs again takes the files that are there then, in order. Taking one twice changes nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.state.store import Store

REQUESTS = "requests"
"""Their folder in the state directory."""
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class TableRequest:
    """What was asked for: to `pause` a source table, or to resume it. `id` is unique in its pipeline."""

    id: str
    table: TableId
    pause: bool

    @property
    def copy(self) -> str:
        """The name of the copy that resuming asks for: it counts once, whoever asks."""
        return f"resume-{self.id}"


class TableRequests:
    """The requests of a pipeline. Any process; `store` is that of the state directory."""

    def __init__(self, store: Store, now_s: Callable[[], float] = time.time) -> None:
        self._store, self._now_s = store.within(REQUESTS), now_s

    def add(self, table: TableId, *, pause: bool) -> TableRequest:
        """Leave a request behind all that are there: on disk when it returns. Raises StateError."""
        there = (int(name.partition("-")[0]) for name in self._names())
        now_ms = round(self._now_s() * 1000)  # not from 1 on: a crash may bring back what was removed
        number = max(now_ms, *(1 + each for each in there), 0)
        made = TableRequest(f"{number}-{secrets.token_hex(6)}", table, pause)
        self._store.write_json(made.id + _SUFFIX, {"table": [table.database, table.table], "pause": pause})
        return made

    def all(self) -> Sequence[TableRequest]:
        """Those that no decided batch has taken in, in order. Raises StateError."""
        return [self._get(name) for name in self._names()]

    def remove(self, requests: Iterable[TableRequest]) -> None:
        """A batch that has taken them in is decided. Raises StateError."""
        for each in requests:
            self._store.remove(each.id + _SUFFIX)

    def _names(self) -> list[str]:
        names = (name for name in self._store.names() if name.endswith(_SUFFIX) and name[:1].isdigit())
        return sorted(names, key=lambda name: (int(name.partition("-")[0]), name))

    def _get(self, name: str) -> TableRequest:
        fields = self._store.read_json(name) or {}
        try:
            database, table = fields["table"]
            return TableRequest(name.removesuffix(_SUFFIX), TableId(database, table), bool(fields["pause"]))
        except (ValueError, KeyError, TypeError) as error:
            hint = "remove the file, and ask again (cdc pause, cdc resume)"
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=hint) from error
