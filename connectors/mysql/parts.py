"""The parts of a MySQL source that belong to one process, each created on first use and kept.

The source is pickled without them; the other process creates its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.source import Context, Lag
from cdc.state.store import Store
from connectors.mysql.captured_pattern import CapturedPattern
from connectors.mysql.follow.resumption import Resumption
from connectors.mysql.follow.sibling_runs import SiblingRuns
from connectors.mysql.follow.streams import Streams
from connectors.mysql.follow.tail import Tail
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import Schemas
from connectors.mysql.server.server_info import server_settings
from connectors.mysql.snapshot.driver_side import DriverSide
from connectors.mysql.snapshot.plan.coordinator import Coordinator
from connectors.mysql.snapshot.plan.splits import SnapshotSplits

NAMES_FILE = "names.json"
"""The state file with the server's lower_case_table_names.

0 is case-sensitive, 1 stores names in lower case, 2 stores them as written and compares in lower case.
"""


def names_ignore_case(store: Store, streams: Streams) -> bool:
    """Return whether names that differ only in case denote one table on the server.

    The server is queried once in the life of a pipeline and the answer kept in `names.json`: a server cannot change it,
    and its replicas must have the same. Any process; repeatable. Raises SourceError, StateError.
    """
    kept = store.read_json(NAMES_FILE, hint="remove it")
    if kept is None:
        with streams.session() as connection:
            kept = {"lower_case_table_names": server_settings(connection).lower_case_table_names}
        store.write_json(NAMES_FILE, kept)
    value = kept.get("lower_case_table_names")
    if not isinstance(value, int):
        raise StateError("it does not say how names are compared", where=store.where(NAMES_FILE), hint="remove it")
    return value != 0


class Parts:
    """Log reader, snapshot planner and schema history, created lazily within one process.

    Attributes:
        given: the options as the user gave them.
        streams: opens sessions and the log.
        notices: lines for the user.
    """

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self.given, self.context = options, context
        self.streams = Streams(options, context.stopping)
        self.notices: list[str] = []

    @cached_property
    def options(self) -> MySqlSourceOptions:
        """The options, with patterns that compare names as the server does. Raises SourceError, StateError."""
        return self.given.comparing_names(ignore_case=names_ignore_case(self.context.store, self.streams))

    @cached_property
    def captures(self) -> Callable[[TableId], bool]:
        """Whether a table is captured."""
        return self.options.pattern.matches

    @cached_property
    def schemas(self) -> Schemas:
        """The schema history; its file is read on, not again. The follower's thread has its own."""
        return Schemas(self.context.store, self.options)

    @cached_property
    def tail(self) -> Tail:
        """The reader of the log."""
        resumption = Resumption(self.options, self.context.store, self.streams, self.captures, self.notices)
        digest = Schemas(self.context.store, self.options).digest
        siblings = None if self.context.siblings is None else SiblingRuns(self.context.siblings, digest)
        return Tail(resumption, self.streams, siblings)

    @cached_property
    def coordinator(self) -> Coordinator:
        """The planner of snapshots."""
        history = self.schemas.history
        return Coordinator(self.options, self.context.store, history, self.captures, self.streams, self.notices)

    @cached_property
    def pattern(self) -> CapturedPattern:
        """The table patterns last used to look up tables."""
        return CapturedPattern(self.context.store, self.options)

    @cached_property
    def splits(self) -> SnapshotSplits:
        """The reader of the chunk plan."""
        return SnapshotSplits(self.options, self.context.store)

    @cached_property
    def driver(self) -> DriverSide:
        """Stores watermarks and progress."""
        return DriverSide(self.context.store)

    def lag(self) -> Lag | None:
        """Return bytes read ahead, and notices of the log reader and the chunk planner."""
        lag = self.tail.lag() if "tail" in self.__dict__ else None
        if lag is None:
            return Lag.with_notices(self.notices) if self.notices else None
        return Lag.with_notices(self.notices, lag.bytes, lag.note, lag.transactions)

    def stop(self) -> None:
        """Stop the threads of the parts created so far."""
        if "tail" in self.__dict__:
            self.tail.stop()
        if "coordinator" in self.__dict__:
            self.coordinator.stop()
