"""The mailbox of a pipeline: pending user requests about its tables.

    <state>/requests/<number>-<random>.json    {"table": "shop.orders", "request": "pause"}

| request | meaning |
|---|---|
| `snapshot` | `cdc resync`: the source re-snapshots the table |
| `pause` | `cdc pause`: from the next batch on, rows and schema changes of the table are skipped |
| `resume` | `cdc resume`: the source re-snapshots the table, including what was skipped, and it is followed again |

Commands write requests, whether the pipeline runs or not. A batch takes in the pending requests when it is derived, in
order, and removes them once it is decided. A repeated batch takes in the requests pending then; requests are
idempotent. An idle pipeline creates an empty batch for them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.schema_json import table_from_json, table_to_json
from cdc.state.store import Store

REQUESTS = "requests"
"""The folder of requests in the state directory."""
_SUFFIX = ".json"


class RequestKind(StrEnum):
    """The kind of a request."""

    SNAPSHOT = "snapshot"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request about a source table. `id` is unique within the pipeline, and ascending."""

    id: str
    table: TableId
    kind: RequestKind


class Mailbox:
    """The pending requests of a pipeline. Any process; `store` is that of the state directory.

    All methods raise StateError.
    """

    def __init__(self, store: Store, now_s: Callable[[], float] = time.time) -> None:
        self._store, self._now_s = store.within(REQUESTS), now_s

    def add(self, table: TableId, kind: RequestKind) -> Request:
        """Add a request after all others. It is on disk when this returns."""
        numbers = (int(name.partition("-")[0]) for name in self._names())
        now_ms = round(self._now_s() * 1000)  # not a counter from 1: a crash may bring removed files back
        number = max(now_ms, *(1 + each for each in numbers), 0)
        request = Request(f"{number}-{secrets.token_hex(6)}", table, kind)
        self._store.write_json(request.id + _SUFFIX, {"table": table_to_json(table), "request": str(kind)})
        return request

    def is_empty(self) -> bool:
        """Whether no request is pending. Cheap: called several times a second."""
        return not self._names()

    def open(self) -> Sequence[Request]:
        """The requests that no decided batch has taken in, in order."""
        return [self._get(name) for name in self._names()]

    def remove(self, requests: Iterable[Request]) -> None:
        """Remove requests that a decided batch has taken in."""
        for each in requests:
            self._store.remove(each.id + _SUFFIX)

    def _names(self) -> list[str]:
        names = (name for name in self._store.names() if name.endswith(_SUFFIX) and name[:1].isdigit())
        return sorted(names, key=lambda name: (int(name.partition("-")[0]), name))

    def _get(self, name: str) -> Request:
        fields = self._store.read_json(name) or {}
        try:
            return Request(name.removesuffix(_SUFFIX), table_from_json(fields["table"]), RequestKind(fields["request"]))
        except (ValueError, KeyError, TypeError) as error:
            hint = "remove the file, and repeat the command (cdc resync, cdc pause, cdc resume)"
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=hint) from error


def snapshots_requested(mailbox: Mailbox) -> frozenset[TableId]:
    """The source tables with pending snapshot requests of users."""
    return frozenset(each.table for each in mailbox.open() if each.kind is RequestKind.SNAPSHOT)
