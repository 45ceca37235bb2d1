"""The log of a live server as batches: followed in a thread, split at transaction ends. Stream reader process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cdc.errors import SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from cdc.source import Lag, Limits, Split
from connectors.mysql.follow.log_end import LogEndPoller
from connectors.mysql.follow.resumption import Resumption
from connectors.mysql.follow.sibling_runs import Next, ReaderState, SiblingRuns
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import Segment, cuts_of, end_offset, splits_at
from connectors.mysql.server.positions import LogPosition, log_end
from connectors.mysql.server.same_server import AnotherServer
from connectors.mysql.server.server_info import ServerInfo
from connectors.mysql.sharing.plans import SharedPlan

if TYPE_CHECKING:
    from connectors.mysql.follow.follower import Follower
    from connectors.mysql.schema.tracker import Tracker

CATCH_UP_S = 60.0
"""How long a server after a failover may lack transactions before the run stops."""


class _Redefined(Exception):
    """The server's tables differ from those of the log: the number of history entries including these changes."""

    def __init__(self, schemas: int) -> None:
        super().__init__()
        self.schemas = schemas


class Tail:
    """Plans the log's part of batches.

    Attributes:
        until: read no further than this, on the server it names; None to follow forever.
        ordered: tables with an ordered snapshot that has not begun.
    """

    def __init__(self, resumption: Resumption, streams: Streams, siblings: SiblingRuns | None = None) -> None:
        self._resumption, self._streams, self._siblings = resumption, streams, siblings
        self._shared_plan: SharedPlan | None = None
        self._opened: int | None = None
        self._follower: Follower | None = None
        self._planned: tuple[MySqlOffset, list[Segment]] | None = None
        self._backoffs: dict[float, Backoff] = {}
        self._followed = self._resumed = self._compared = self._compared_late = False
        self._note = ""
        self._log_end = LogEndPoller(partial(streams.session, patient=False))
        self._reached: MySqlOffset | None = None
        self.until: tuple[LogPosition, str] | None = None
        self.ordered: frozenset[TableId] = frozenset()

    def offset(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """Return the end of the next batch; `start` when nothing arrived in time or `until` is reached."""
        self._reached = end = self._offset(start, limits, wait_s)
        return end

    def _offset(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        if self._siblings is not None and self._resumed:
            there = self._from_sibling(self._siblings, start, wait_s)
            if there is not None:
                return there
        follower = self._follower
        if follower is None:
            found = self._follower_or_end(start, limits, wait_s)
            if isinstance(found, MySqlOffset):
                return found
            follower = found
        self._follower = follower  # `stop` in another thread may clear it
        try:
            batch = follower.poll(limits, wait_s)
        except AnotherServer:
            return self._move_to_other_server(start)
        if batch:
            return self._planned_end(follower, start, batch)
        if self._compared or self._compared_late or not (follower.at_end or self.until is not None):
            return start
        self._compared_late = True  # it was too far behind for the comparison at first
        self.stop()
        return self._offset(start, limits, wait_s)

    def _follower_or_end(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> Follower | MySqlOffset:
        """Return a follower from `start` on, or the end of a batch without one."""
        while True:
            try:
                if self._siblings is not None and not self._resumed:
                    self._tracked(start)
                    return self._offset(start, limits, wait_s)
                return self._follow(start, limits)
            except _Redefined as found:
                return replace(start, schemas=found.schemas)
            except AnotherServer:
                return self._move_to_other_server(start)
            except SourceUnavailable as error:
                if not self._followed or not self._wait_for_server(error, self._streams.retry):
                    raise
                if self.until is None or self._streams.retry.stopping():
                    return start

    def _planned_end(self, follower: Follower, start: MySqlOffset, batch: list[Segment]) -> MySqlOffset:
        """Return the end of a batch that the follower has read."""
        end = end_offset(start, batch)
        self._planned, self._shared_plan = (end, batch), None
        self._opened = follower.segmenter.files.opened_files.pop(end.position.file, None)
        self._resumption.note_opened(end, self._opened)
        return end

    def _from_sibling(self, siblings: SiblingRuns, start: MySqlOffset, wait_s: float) -> MySqlOffset | None:
        """Return the end of a batch planned by another run, or `start` if it has nothing; None: follow the log."""
        if self.until is not None and self.until[1] != start.server:
            return None
        follower = self._follower
        own = ReaderState(
            follower is not None, follower is not None and follower.at_end and not follower.progress.waiting
        )
        found = siblings.next(start, None if self.until is None else self.until[0], wait_s, own)
        if found is Next.FOLLOW or (found is Next.NOTHING and not (self._compared or self._compared_late)):
            return None
        if follower is not None:
            self.stop()
        self._log_end.poll(start.position)
        if not isinstance(found, SharedPlan):
            return start
        self._shared_plan = found
        self._resumption.note_opened(found.end, found.opened_s)
        return found.end

    def splits(self, start: MySqlOffset, end: MySqlOffset, parallelism: int) -> Sequence[Split]:
        """Split at transaction ends when the batch is big and was planned by this object; else return one split."""
        if (
            self._shared_plan is not None
            and self._shared_plan.start.same_log(start)
            and self._shared_plan.end.same_log(end)
        ):
            return splits_at(end, self._shared_plan.bounds)
        planned = None
        if self._planned is not None and self._planned[0].same_log(end):
            planned = self._planned[1]
        cuts = cuts_of(planned, start, end, parallelism)
        segmenter = None if self._follower is None else self._follower.segmenter
        if self._siblings is not None and planned is not None and segmenter is not None and not segmenter.prepared.seen:
            self._siblings.publish_plan(start, end, cuts, self._opened)
        return splits_at(end, cuts)

    def follow_until(self, position: tuple[LogPosition, str] | None) -> None:
        """Set `until`. If it changes, log read ahead is dropped and read again."""
        if position != self.until:
            self.stop()
            self.until = position

    def lag(self) -> Lag | None:
        """Return the distance from the last planned batch to the end of the log, and what the follower is waiting for.

        Log without captured tables does not count, as nothing of it must be delivered. None while only such log was
        read and the end of the log is unknown.
        """
        if self._follower is None and self._note:
            return Lag(0, self._note)
        if self._follower is None:
            return None if self._siblings is None else self._lag_of_sibling()
        follower, at = self._follower, self._reached
        looked, end = follower.progress, None if follower.at_end or at is None else self._log_end.latest
        known = looked.upto if follower.at_end else None if end is None else end.at
        if known is not None and looked.caught_up(known):
            return Lag(0, follower.note, transactions=0)
        if not looked.waiting and end is not None:
            return Lag(
                end.bytes_behind(looked.upto),
                follower.note,
                transactions=end.transactions_behind(follower.segmenter.files.executed_gtids),
            )
        size, transactions = follower.waiting
        if not looked.waiting:
            return Lag(0, follower.note) if follower.note or not size else None
        if end is not None and at is not None:
            size = max(size, end.bytes_behind(at.position))
            there = end.transactions_behind(at.gtids)
            transactions = there if transactions is None or there is None else max(transactions, there)
        return Lag(size, follower.note, transactions=transactions)

    def _lag_of_sibling(self) -> Lag | None:
        """Return the lag of a run without a reader of its own, by the last known end of the server's log."""
        end, at = self._log_end.latest, self._reached
        if self._siblings is not None and self._siblings.clear:
            return Lag(0, transactions=0)
        if end is None or at is None:
            return None
        return Lag(end.bytes_behind(at.position), transactions=end.transactions_behind(at.gtids))

    def stop(self) -> None:
        """Stop the follower thread and wait for its end, as the history has one writer; `offset` starts another."""
        follower, self._follower = self._follower, None
        self._log_end.latest = None
        if follower is not None:
            follower.stop()
            follower.join()

    def _follow(self, start: MySqlOffset, limits: Limits | None) -> Follower:
        info, tracker = self._tracked(start)
        if self.until is not None and self.until[1] != info.identity:
            self.until = log_end(info), info.identity
        until = None if self.until is None else self.until[0]
        follower = self._resumption.follower(start, info, tracker, limits, until=until, log_end=self._log_end)
        follower.start()
        self._followed, self._note = True, ""
        self._backoffs.clear()
        return follower

    def _tracked(self, start: MySqlOffset) -> tuple[ServerInfo, Tracker]:
        """Return the server and its schema tracker, after comparing the tables with the server's."""
        info, tracker = self._resumption.tracker(start, self.ordered)
        self._resumed = True
        if not self._compared:
            self._compared = tracker.compare(start.position)
            if tracker.entries != start.schemas:
                raise _Redefined(tracker.entries)
        return info, tracker

    def _move_to_other_server(self, start: MySqlOffset) -> MySqlOffset:
        """Translate `start` to another server's log, as a batch of its own.

        Everything after `start` is planned again there. Returns `start` itself while that server still lacks
        transactions.
        """
        self.stop()
        self._resumed = self._compared = self._compared_late = False
        while True:
            try:
                end = self._resumption.offset_on_new_server(start)
            except (SourceUnavailable, AnotherServer) as error:
                retry = self._streams.retry
                if not self._wait_for_server(error, replace(retry, timeout_s=min(CATCH_UP_S, retry.timeout_s))):
                    raise
                if self.until is None or retry.stopping():
                    return start
            else:
                self._note = ""
                self._backoffs.clear()
                return end

    def _wait_for_server(self, error: SourceError, retry: RetryPolicy) -> bool:
        """Wait a moment for a server that is down or behind, and note the reason for the user.

        False when the time is up.
        """
        self._note = f"waiting for the server: {error.message}"
        backoff = self._backoffs.setdefault(retry.timeout_s, Backoff(retry, "following the log"))
        return backoff.pause(error.message) or retry.stopping()
