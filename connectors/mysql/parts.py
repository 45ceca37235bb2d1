"""The parts of a MySQL source that belong to one process: each is made when it is first used, and kept.

The source is pickled without them, and the other process makes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from cdc.schema import TableId
from cdc.source import Lag, Siblings
from cdc.state.store import Store
from connectors.mysql.follow.names import names_ignore_case
from connectors.mysql.follow.resumption import Resumption
from connectors.mysql.follow.sibling_runs import SiblingRuns
from connectors.mysql.follow.streams import Streams
from connectors.mysql.follow.tail import Tail
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import Schemas
from connectors.mysql.snapshot.driver_side import DriverSide
from connectors.mysql.snapshot.plan.captured import CapturedPattern
from connectors.mysql.snapshot.plan.coordinator import Coordinator
from connectors.mysql.snapshot.plan.splits import SnapshotSplits


class Parts:
    """Log reader, snapshot planner, schema history: lazily made parts of one process. `notices`: lines for the user."""

    def __init__(
        self, options: MySqlSourceOptions, store: Store, streams: Streams, siblings: Siblings | None = None
    ) -> None:
        self._options, self._store, self._streams, self._siblings = options, store, streams, siblings
        self.notices: list[str] = []

    @cached_property
    def options(self) -> MySqlSourceOptions:
        """The options, with patterns that compare names as the server does. Raises SourceError, StateError."""
        return self._options.comparing_names(ignore_case=names_ignore_case(self._store, self._streams))

    @cached_property
    def captures(self) -> Callable[[TableId], bool]:
        """Whether a table is captured."""
        return self.options.pattern.matches

    @cached_property
    def schemas(self) -> Schemas:
        """The schema history, which is read on and not again; the follower's thread has one of its own."""
        return Schemas(self._store, self.options)

    @cached_property
    def tail(self) -> Tail:
        """The reader of the log."""
        resumption = Resumption(self.options, self._store, self._streams, self.captures, self.notices)
        digest = Schemas(self._store, self.options).digest
        siblings = None if self._siblings is None else SiblingRuns(self._siblings, digest)
        return Tail(resumption, self._streams, siblings)

    @cached_property
    def coordinator(self) -> Coordinator:
        """The planner of snapshots."""
        history = self.schemas.history
        return Coordinator(self.options, self._store, history, self.captures, self._streams, self.notices)

    @cached_property
    def pattern(self) -> CapturedPattern:
        """The patterns that tables were looked up with."""
        return CapturedPattern(self._store, self.options)

    @cached_property
    def splits(self) -> SnapshotSplits:
        """The reader of the chunk plan."""
        return SnapshotSplits(self.options, self._store)

    @cached_property
    def driver(self) -> DriverSide:
        """The keeper of watermarks and progress."""
        return DriverSide(self._store)

    def lag(self) -> Lag | None:
        """Bytes read ahead, and what the log's reader and the planner of chunks have met."""
        lag = self.tail.lag() if "tail" in self.__dict__ else None
        if lag is None:
            return Lag.with_notices(self.notices) if self.notices else None
        return Lag.with_notices(self.notices, lag.bytes, lag.note, lag.transactions)

    def stop(self) -> None:
        """End the threads of those that were made."""
        if "tail" in self.__dict__:
            self.tail.stop()
        if "coordinator" in self.__dict__:
            self.coordinator.stop()
