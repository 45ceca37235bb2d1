"""Order Debezium's schema changes relative to rows of other topics, by their positions in the server's log.

A connector writes schema changes to a topic named by its prefix, the DDL topic, and rows to topics whose names
begin with that prefix. A statement is carried out when every partition with rows of its table has reached a row after
the statement, or its end. Rows after the statement wait for it; if such a row was read before it, the statement is
refused. To prevent that, rows are only planned once the DDL topic has been read to the end that it has when the rows
are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cdc.errors import CorruptLog
from cdc.schema import TableId
from connectors.kafka.formats.ddl import AlteredColumns, tables_of
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.groups import DdlMessage, Messages
from connectors.kafka.formats.log_positions import NOWHERE, LogPositions, SourceLogPosition
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.history import HistoryState
from connectors.kafka.read.offset import KafkaOffset
from connectors.kafka.read.pending import Pending

Ends = Callable[[Sequence[str]], Mapping[str, int]]
"""Gives the present ends of partitions, by name; at most the end of a bounded run."""
Parts = Mapping[tuple[str, int], Pending]

IDLE_S = 1.0
"""For how many seconds a partition at its end is waited for, because producers write to several partitions at once."""
_AT_ONCE = 1_000


def may_do_something(statement: DdlMessage) -> bool:
    """Whether a statement is understood, and does something that the rows do not tell."""
    return any(not isinstance(change, AlteredColumns) or not change.nothing for change in statement.changes)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A statement that was read but not planned yet. `passed` has the partitions that have reached a row after it."""

    ddl_topic: str
    statement: DdlMessage
    position: SourceLogPosition
    since: float = field(default_factory=time.monotonic)
    passed: set[str] = field(default_factory=set)

    def topics(self, known: HistoryState, tables: Collection[TableId]) -> set[str]:
        """The topics with rows of these tables, including those to which the connector would write them."""
        return {f"{self.ddl_topic}.{table}" for table in tables}.union(
            *(known.topics.get(table, ()) for table in tables)
        )


def _first_after(positions: LogPositions, position: SourceLogPosition) -> int:
    later = positions.at > position.at
    return int(np.argmax(later)) if later.any() and positions.comparable(position) else len(later)


class ReadOrder:
    """Answers the planner's questions about the order. Does not ask the brokers when there is no DDL topic.

    Args:
        idle_s: for how long a partition at its end is waited for; 0 when later messages do not count.
        at: the end of the batch before.

    Attributes:
        reached: by partition, the log position of the last planned row.
        watched: by partition, the log position of a statement that was carried out while the partition was at its end.
    """

    def __init__(self, formats: Formats, ends: Ends, idle_s: float = IDLE_S, at: KafkaOffset | None = None) -> None:
        self._formats, self._ends, self.idle_s = formats, ends, idle_s
        self._ddl_topics: dict[str, bool] = {}
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self.reached: dict[str, SourceLogPosition] = dict(at.reached) if at is not None else {}
        self.watched: dict[str, SourceLogPosition] = dict(at.watched) if at is not None else {}
        self._ended: Mapping[str, int] = {}
        self._is_complete = True
        self._held: dict[str, list[_Waiting]] = {}

    @property
    def waits(self) -> bool:
        """Whether a statement waits for rows."""
        return bool(self._waiting)

    def assign(self, parts: Parts) -> None:
        """Set the partitions. A DDL topic is one whose name is the prefix of others."""
        topics = {topic for topic, _ in parts}
        begins = {topic[:at] for topic in topics for at, sign in enumerate(topic) if sign == "."}
        self._ddl_topics = {topic: self._ddl_topics.get(topic, False) for topic in topics & begins}

    def read_statements(self, parts: Parts, known: HistoryState, takes: Callable[[TableId], bool]) -> bool:
        """Read the available messages of the DDL topics; return whether that changes which rows may be planned."""
        if not self._ddl_topics:
            return False
        found: dict[tuple[str, int], _Waiting] = {}
        for part in parts.values():
            if part.topic in self._ddl_topics and part.parts:
                messages = part.messages()
                for statement in self._statements(part.topic, messages):
                    at = part.name, messages.offset(statement.message)
                    if at in known.carried or not may_do_something(statement) or statement.position is None:
                        continue
                    if any(map(takes, tables_of(statement.changes))):
                        found[at] = self._waiting.get(at) or _Waiting(part.topic, statement, statement.position)
        before, self._waiting = self._waiting, found
        # Rows are read before this asks for the ends, so a statement before them is not missed.
        names = {part.name for part in parts.values() if part.topic in self._ddl_topics}
        for waiting in found.values():
            names.update(part.name for part in self._with_rows(waiting, known, parts))
        self._ended = self._ends(sorted(names))
        was_complete, self._is_complete = (
            self._is_complete,
            all(self._is_read(part) for part in parts.values() if self.is_ddl_topic(part)),
        )
        return was_complete != self._is_complete or before.keys() != found.keys()

    def _is_read(self, part: Pending) -> bool:
        return part.position >= self._ended.get(part.name, 0)

    def _statements(self, topic: str, messages: Messages) -> Sequence[DdlMessage]:
        if not self._ddl_topics[topic]:
            first = messages.part(0, _AT_ONCE)
            present = first.values.present
            if not present.any():
                return ()
            one = messages.part(int(np.argmax(present)), int(np.argmax(present)) + 1)
            # Those of the snapshot are no statements, but no rows either.
            reading = self._formats.of(topic, messages).read(one)
            if reading.groups or reading.unreadable:
                del self._ddl_topics[topic]
                return ()
            self._ddl_topics[topic] = True
        return self._formats.of(topic, messages).read(messages).statements

    def _is_below_ddl_topic(self, topic: str) -> bool:
        return topic in self._ddl_topics or any(topic.startswith(f"{ddl_topic}.") for ddl_topic in self._ddl_topics)

    def is_ddl_topic(self, part: Pending) -> bool:
        """Whether a partition belongs to a DDL topic."""
        return part.topic in self._ddl_topics

    def may_plan(self, part: Pending, parts: Parts) -> bool:
        """Whether rows of a partition may be planned: the DDL topics of its topic have been read to their end."""
        return all(
            self._is_read(other)
            for other in parts.values()
            if other.topic in self._ddl_topics and part.topic.startswith(f"{other.topic}.")
        )

    def limit(self, part: Pending, messages: Messages, known: HistoryState) -> int:
        """How many of the messages are before every waiting statement. Raises CorruptLog for one that came too late."""
        if not self._is_below_ddl_topic(part.topic) or part.topic in self._ddl_topics:
            return len(messages)
        holding = [
            waiting
            for waiting in self._waiting.values()
            if part.topic in waiting.topics(known, tables_of(waiting.statement.changes))
        ]
        if not holding and part.name not in self.watched:
            return len(messages)
        positions = self._log_positions(part.topic, messages)
        self._check(part, messages, positions)
        firsts = [_first_after(positions, waiting.position) for waiting in holding]
        count = min(firsts, default=len(messages))
        self._held[part.name] = [item for item, first in zip(holding, firsts, strict=True) if first == count]
        return count

    def note_limit_reached(self, part: Pending) -> None:
        """Note that the messages before a partition's limit are planned, and more are waiting."""
        for waiting in self._held[part.name]:
            waiting.passed.add(part.name)

    def _check(self, part: Pending, messages: Messages, positions: LogPositions) -> None:
        """Check that no row comes from before a statement that was carried out while the partition was at its end."""
        watched = self.watched.get(part.name)
        if watched is None or not positions.comparable(watched):
            return
        known = positions.at != NOWHERE
        early = known & (positions.at <= watched.at)
        if early.any():
            raise CorruptLog(
                f"a row from before the statement at {watched}, which was applied before it arrived",
                where=messages.where(int(np.argmax(early))),
                hint="the connector's producer has written out of order: start over with an empty state directory and "
                "empty sink tables",
            )
        if known.any():
            del self.watched[part.name]

    def note_planned(self, part: Pending, messages: Messages) -> None:
        """Note that these messages of a partition are planned."""
        if self._ddl_topics and part.topic not in self._ddl_topics and self._is_below_ddl_topic(part.topic):
            # A delete is followed by its tombstone, which has no position.
            last = self._log_positions(part.topic, messages.part(max(0, len(messages) - 2))).last()
            if last is not None:
                self.reached[part.name] = last

    def _log_positions(self, topic: str, messages: Messages) -> LogPositions:
        found = self._formats.of(topic, messages)
        if not isinstance(found, DebeziumFormat):
            return LogPositions(np.full(len(messages), NOWHERE, np.int64), frozenset(), frozenset())
        return found.log_positions(messages)

    def waits_for_rows(self, statement: DdlMessage, at: tuple[str, int], known: HistoryState, parts: Parts) -> bool:
        """Whether partitions with rows of the statement's table may still have some from before it."""
        waiting = self._waiting.get(at)
        if waiting is None or not statement.changes or self.refusal_reason(at, known, parts):
            return False
        return not all(self._is_past(waiting, part) for part in self._with_rows(waiting, known, parts))

    def _is_past(self, waiting: _Waiting, part: Pending) -> bool:
        if part.name in waiting.passed:
            return True
        if part.parts or not self._is_read(part):
            return False
        return time.monotonic() - waiting.since >= self.idle_s

    def _with_rows(self, waiting: _Waiting, known: HistoryState, parts: Parts) -> list[Pending]:
        topics = waiting.topics(known, [change.table for change in waiting.statement.changes])
        return [part for part in parts.values() if part.topic in topics]

    def refusal_reason(self, at: tuple[str, int], known: HistoryState, parts: Parts) -> str:
        """Why the positions give no order; empty when they do."""
        waiting = self._waiting.get(at)
        if waiting is None:
            return "the rows' topics do not begin with the name of its topic, so it has no order with them"
        if sum(key[0] == waiting.ddl_topic and self._ended.get(part.name, 0) > 0 for key, part in parts.items()) > 1:
            return (
                f"{waiting.ddl_topic} has messages in several partitions, so statements have no order among themselves"
            )
        for part in self._with_rows(waiting, known, parts):
            reached = self.reached.get(part.name)
            if reached is None:
                continue
            if reached.log != waiting.position.log or 0 != reached.server != waiting.position.server != 0:
                return f"rows of {part.topic} come from the log of another server"
            if reached.at > waiting.position.at:
                return f"rows after it were read before it, from {part.topic}-{part.partition}"
        return ""

    def note_carried_out(self, entry_at: tuple[str, int], known: HistoryState, parts: Parts) -> None:
        """Note that a statement is carried out, after which partitions at their end must have no row from before it."""
        waiting = self._waiting.get(entry_at)
        if waiting is not None:
            for part in self._with_rows(waiting, known, parts):
                if part.name not in waiting.passed:
                    self.watched[part.name] = waiting.position
