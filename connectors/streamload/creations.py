"""Tables that are created side by side: each takes the server tens of milliseconds, most of which it waits. Driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from cdc.schema import CreateTable, SchemaChange
from connectors.streamload.sql import Session

_SESSIONS = 8

Work = Callable[[Session], None]


def creations(changes: Sequence[SchemaChange], first: int) -> list[CreateTable]:
    """The CreateTables from `first` on up to the next other change, or the next one for the same table."""
    found: dict[object, CreateTable] = {}
    for change in changes[first:]:
        if not isinstance(change, CreateTable) or change.table in found:
            break
        found[change.table] = change
    return list(found.values())


def side_by_side(session: Callable[[], AbstractContextManager[Session]], work: Sequence[Work]) -> None:
    """Carry out pieces of work that do not depend on each other, in several sessions.

    Raises the first error once every piece that had begun is through; those that had not are left.
    """
    waiting = deque(work)

    def run() -> None:
        with session() as own:
            while True:
                try:
                    piece = waiting.popleft()
                except IndexError:
                    return
                try:
                    piece(own)
                except BaseException:
                    waiting.clear()
                    raise

    with ThreadPoolExecutor(max(1, min(_SESSIONS, len(work))), thread_name_prefix="cdc-create") as pool:
        running = [pool.submit(run) for _ in range(min(_SESSIONS, len(work)))]
    for one in running:
        one.result()
