"""The mailbox of a pipeline: what users ask for its tables, until a batch has taken it in.

    <state>/requests/<number>-<random>.json    {"table": "shop.orders", "request": "pause"}

| request | what it means |
|---|---|
| `snapshot` | `cdc resync`: the source snapshots the table again |
| `pause` | `cdc pause`: from the next batch on rows and schema changes of the table are left out |
| `resume` | `cdc resume`: the source snapshots the table, which has all that was left out, and it goes on from there |

Commands write requests, whether the pipeline runs or not. Each batch takes those in that are there when it is derived,
in order, and removes them once it is decided: a batch that runs again takes the ones that are there then, and taking
one twice changes nothing. A pipeline that is idle makes an empty batch for them.
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
"""Their folder in the state directory."""
_SUFFIX = ".json"


class RequestKind(StrEnum):
    """The kind of a request."""

    SNAPSHOT = "snapshot"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request about a source table. `id` is unique in the pipeline, and rises."""

    id: str
    table: TableId
    kind: RequestKind


class Mailbox:
    """The requests of a pipeline. Any process; `store` is that of the state directory.

    All methods raise StateError.
    """

    def __init__(self, store: Store, now_s: Callable[[], float] = time.time) -> None:
        self._store, self._now_s = store.within(REQUESTS), now_s

    def add(self, table: TableId, kind: RequestKind) -> Request:
        """Leave a request after all that are there: on disk when it returns."""
        there = (int(name.partition("-")[0]) for name in self._names())
        now_ms = round(self._now_s() * 1000)  # not from 1 on: a crash may bring back what was removed
        number = max(now_ms, *(1 + each for each in there), 0)
        made = Request(f"{number}-{secrets.token_hex(6)}", table, kind)
        self._store.write_json(made.id + _SUFFIX, {"table": table_to_json(table), "request": str(kind)})
        return made

    def is_empty(self) -> bool:
        """Whether no request waits for a batch. Cheap: asked several times a second."""
        return not self._names()

    def open(self) -> Sequence[Request]:
        """The requests that no decided batch has taken in, in order."""
        return [self._get(name) for name in self._names()]

    def remove(self, requests: Iterable[Request]) -> None:
        """Forget requests: a batch that has taken them in is decided."""
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
            hint = "remove the file, and ask again (cdc resync, cdc pause, cdc resume)"
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=hint) from error


def snapshots_requested(mailbox: Mailbox) -> frozenset[TableId]:
    """The source tables of which users want snapshots, as far as no decided batch has taken that in."""
    return frozenset(each.table for each in mailbox.open() if each.kind is RequestKind.SNAPSHOT)
