"""Plan the content of the next batch. Stream reader process.

The planner reads every message before a batch gets it, so the schemas of the batch are known and written to the history
before its rows are prepared. A batch takes from each partition the messages that fit the known schemas. When none fits,
the schemas are changed first, and the batch begins with that change. So a message that needs another schema only holds
up its own partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc.errors import SchemaUnknown, SourceUnavailable
from cdc.retry import RetryPolicy
from cdc.source import Limits
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.formats.groups import Messages, Reading, TableGroup
from connectors.kafka.read import statements
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.history import Entry, HistoryState, TopicHistory, carries_out, is_statement, partition_entry
from connectors.kafka.read.offset import KafkaOffset
from connectors.kafka.read.ordered import IDLE_S, ReadOrder
from connectors.kafka.read.partitions import FoundPartitions, Partitions
from connectors.kafka.read.pending import Pending
from connectors.kafka.read.tables import TopicTables
from connectors.kafka.read.unsigned import UnsignedColumns
from connectors.kafka.source_options import KafkaSourceOptions

_AT_ONCE = 5_000
_LOOK_BYTES = 16 << 20
"""The bytes of messages that are examined for what a table's schema needs, when none fits the known one."""
_DRAIN_S = 0.5
"""For how many seconds at most a batch is gathered after its first message."""


@dataclass(slots=True)
class _Fit:
    """The number of a partition's messages that fit, and what the first one needs when none does.

    `behind`: the first one is after a statement that is to be carried out before it.
    """

    count: int
    needs: list[Entry]
    behind: bool = False


@dataclass(slots=True)
class _Batch:
    """A batch being made: where it ends in each partition so far, and the partitions held up by schemas."""

    known: HistoryState
    ends: dict[str, int] = field(default_factory=dict)
    held: dict[str, _Fit] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    @property
    def waits(self) -> bool:
        """Whether no examined message fits."""
        return bool(self.held) and not self.ends

    def needs(self) -> list[Entry]:
        """The entries that the first messages of held partitions need; for each table, those of the first message.

        A statement comes alone, because the needs of the others depend on its result.
        """
        found: dict[str, Entry] = {}
        for fit in self.held.values():
            for entry in fit.needs:
                if is_statement(entry):
                    return fit.needs
                found.setdefault(str(entry["table"]), entry)
        return list(found.values())


class TopicPlanner:
    """The planner of a run. Not thread safe, except for `stop` and `lag`.

    Args:
        notices: takes the messages that are logged only once.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        history: TopicHistory,
        pipeline: str,
        notices: list[str],
    ) -> None:
        self._cluster, self._policy, self._history, self._tables = cluster, policy, history, TopicTables(options)
        self._notices, self._skips = notices, options.unreadable != "fail"
        self._unsigned = UnsignedColumns(notices, self._tables.captures)
        self._partitions = Partitions(cluster, policy, options, pipeline, notices)
        self._formats = Formats(options, options.registry(policy, SOURCE))
        self._order = ReadOrder(self._formats, self._partitions.ends_of)
        self._at: KafkaOffset | None = None
        self._base = KafkaOffset()
        """`_at` without the topics that have another log by now."""
        self._noticed: dict[str, int] = {}
        self._making: _Batch | None = None
        self.full = False
        """Whether the last batch reached its limits, so that there is more to read."""
        self.stopped = False

    @property
    def _parts(self) -> dict[tuple[str, int], Pending]:
        return self._partitions.parts

    def bound(self) -> None:
        """From now on, ignore messages that come after the present ends."""
        self._partitions.bound()
        self._order.idle_s = 0.0

    def next(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The end of the next batch; `start` when there is nothing. Raises SourceError."""
        self._begin(start)
        while True:
            end = self._plan_batch(start, limits, wait_s)
            # Returning `start` would end a bounded run, which must not happen while partitions wait for others.
            partitions = self._partitions
            done = partitions.all_read(0) and not partitions.behind
            if end != start or partitions.ends is None or self.stopped or done:
                partitions.release_memory()
                return end

    def plan_ahead(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The end of the batch after the last one, which ended at `start`, before it is asked for.

        Writes nothing: returns `start` when the history would need a further entry; `next` then uses what was read.
        """
        end = self._plan_batch(start, limits, wait_s, writes=False)
        self._partitions.release_memory()
        return end

    @property
    def is_search_due(self) -> bool:
        """Whether it is time to look for new partitions, which only `next` does."""
        return self._partitions.is_search_due

    def _begin(self, start: KafkaOffset) -> None:
        """Continue where the last batch ended; go to `start` if that is elsewhere, as at the start of a run."""
        if self._at != start:
            changed = self._partitions.changed_topics(start.ids)
            self._go_to(start, {**changed, **self._partitions.cut_partitions(start.without(changed))})

    def _go_to(self, start: KafkaOffset, changed: Mapping[str, str]) -> None:
        """Read from `start` on. `changed` has the topics and partitions that have another log by now."""
        self._history.truncate(start.schemas)
        self._base, self._at = self._partitions.begin(start, changed), start
        self._noticed = {name: at for name, at in self._noticed.items() if name in self._base.partitions}
        idle_s = 0.0 if self._partitions.ends is not None else IDLE_S
        self._order = ReadOrder(self._formats, self._partitions.ends_of, idle_s, self._base)
        self._order.assign(self._parts)

    def _plan_batch(
        self, start: KafkaOffset, limits: Limits | None, wait_s: float, *, writes: bool = True
    ) -> KafkaOffset:
        found = (
            self._find_partitions(start)
            if writes and self.is_search_due and not self.stopped
            else FoundPartitions(self._base, {})
        )
        batch = self._fitting(len(self._history))
        if writes:  # what the last batch left because it did not fit is not held up again by what others have meanwhile
            batch = self._resolve(batch)
        self._gather(batch, limits, wait_s)
        if self._order.waits and not batch.ends:
            batch = self._fitting(batch.known.count)  # what a statement waits for may have come meanwhile
        resolved = self._resolve(batch) if writes else batch
        if resolved is not batch:
            batch = resolved
            self._gather(batch, limits, 0.0)
        changed = self._partitions.recreated
        if not changed and not batch.ends and not found.new:
            return start
        ids = self._partitions.known_ids(found.at)
        changed = changed or self._partitions.changed_topics(ids)
        if changed:  # while it was being read, so the messages may be of either topic and do not count
            if not writes:
                self._at = None  # makes `next` start over
                return start
            self._go_to(start, changed)
            return self._plan_batch(start, limits, wait_s)
        self.full = limits is not None and (batch.rows >= limits.max_rows or batch.bytes >= limits.max_bytes)
        ends = {**found.at.partitions, **batch.ends}
        log_positions = dict(self._order.reached), dict(self._order.watched)
        self._unsigned.warn(batch.known)
        self._at = self._base = KafkaOffset(batch.known.count, ends, *log_positions, ids, found.new)
        return self._at

    def _find_partitions(self, start: KafkaOffset) -> FoundPartitions:
        """Find new partitions, and add them to the history."""
        changed = self._partitions.changed_topics(self._base.ids)
        if changed:
            self._go_to(start, changed)
        found = self._partitions.find(self._base)
        if found.new:
            self._order.assign(self._parts)
            self._history.append([partition_entry(name) for name in found.new])
        return found

    def _fitting(self, count: int) -> _Batch:
        """A batch of the waiting messages that fit the first `count` entries of the history."""
        batch = self._making = _Batch(self._history.at(count))
        self._plan_fitting(batch)
        return batch

    def _resolve(self, batch: _Batch) -> _Batch:
        """The batch; when nothing fits, one that begins with the entries that the first messages need."""
        needs = [] if batch.ends else batch.needs()
        if not needs:
            return batch
        if carries_out(needs[0]):
            self._order.note_carried_out(tuple(needs[0]["at"]), batch.known, self._parts)
        self._notices += statements.not_filled(needs, batch.known)
        found = self._fitting(self._history.append(needs))
        if not found.ends:
            part = next(part for part in self._parts.values() if part.name in found.held)
            raise SchemaUnknown(
                "this message does not fit its schema",
                where=part.messages().where(0),
                hint="say in columns which types its columns have, or set value.format",
            )
        return found

    def _gather(self, batch: _Batch, limits: Limits | None, wait_s: float) -> None:
        """Read and plan until the limits are reached, or there is nothing more."""
        rows = limits.max_rows if limits is not None else 1 << 62
        free_bytes = limits.max_bytes if limits is not None else 1 << 62
        # Waiting statements must not take the room of the rows for which they wait.
        partitions = [part for part in self._parts.values() if not self._order.is_ddl_topic(part)]
        size = sum(part.bytes for part in partitions) + batch.bytes
        read = batch.rows + sum(map(len, partitions))
        bounded = self._partitions.ends is not None
        began, wait = time.monotonic(), 0.0 if read else wait_s
        while read < rows and size < free_bytes and not self._has_enough(read):
            if batch.waits and size >= _LOOK_BYTES:
                break
            found, came = self._partitions.fetch(min(_AT_ONCE, rows - read), wait)
            size += came
            read += found.count
            self._plan_fitting(batch)
            now = time.monotonic()
            if not bounded and (now - began > wait_s + _DRAIN_S or (not found and read)):
                break
            if not bounded and not read and now - began >= wait_s:
                break
            if bounded and not found and now - began > self._policy.timeout_s:
                raise SourceUnavailable("no answer while reading", where=self._cluster.where)
            wait = 0.02 if read else max(0.0, wait_s - (now - began)) if not bounded else 0.1

    def _has_enough(self, read: int) -> bool:
        """Whether a batch, of which `read` messages are here, needs no more messages."""
        return self.stopped or bool(self._partitions.recreated) or self._partitions.all_read(read)

    def _plan_fitting(self, batch: _Batch) -> None:
        """Plan the messages of each partition up to the first that does not fit."""
        if self._order.read_statements(self._parts, batch.known, self._tables.captures):
            self._partitions.stop_waiting()
        for part in self._parts.values():
            while part.parts and part.name not in batch.held:
                if not self._order.may_plan(part, self._parts):
                    self._partitions.postpone(part)
                    break
                messages = part.messages(_LOOK_BYTES)
                fit = self._fit(part, messages, batch.known)
                if fit.count:
                    self._order.note_planned(part, messages.part(0, fit.count))
                    batch.ends[part.name] = messages.offset(fit.count - 1) + 1
                    batch.rows += fit.count
                    batch.bytes += part.drop(fit.count)
                if fit.count < len(messages):
                    batch.held[part.name] = fit
                    if fit.behind:
                        self._order.note_limit_reached(part)
                        self._partitions.postpone(part)

    def _fit(self, part: Pending, messages: Messages, known: HistoryState) -> _Fit:
        limit = self._order.limit(part, messages, known)
        limited = limit < len(messages)
        if not limit:
            return _Fit(0, [], limited)
        messages = messages.part(0, limit)
        found = self._formats.of(part.topic, messages)
        reading = found.read(messages, known.table_of(part.topic))
        self._unsigned.add(reading.unsigned)
        groups = [self._tables.described(group, found) for group in reading.groups]
        count, first = self._first_unfit(groups, len(messages), known, part.topic)
        context = statements.StatementContext(known, self._tables, self._order, self._parts)
        due = statements.first_due(messages, reading, context)
        if due is not None and due[0] < count:
            count, first = due[0], None
        # Whether a statement can be carried out is only known once everything before it fits.
        self._note_left_out(part, statements.left_out(messages, reading, context, count))
        if count:
            return _Fit(count, [], limited and count == limit)
        if first is None:
            return _Fit(0, due[1] if due else [])
        return _Fit(0, [self._needed_entry(first, reading, messages, known, part.topic)])

    def _first_unfit(
        self, groups: Sequence[TableGroup], count: int, known: HistoryState, topic: str
    ) -> tuple[int, TableGroup | None]:
        """Return how many of the `count` messages fit the known schemas, and the group of the first that does not."""
        first = None
        for group in groups:
            if not self._tables.captures(group.table):
                continue
            self._tables.check_database(group)
            refused = self._tables.refusal_of(group, known)
            if refused is not None and self._skips:
                continue  # the task will omit its messages
            at = int(group.images.messages[0])
            unfit = at if refused is not None else self._tables.first_unfit(group, known, topic)
            if unfit is not None and unfit < count:
                count, first = unfit, group
        return count, first

    def _note_left_out(self, part: Pending, left_out: Iterable[tuple[int, str]]) -> None:
        """Note each statement that is not carried out, once."""
        for offset, notice in left_out:
            if offset >= self._noticed.get(part.name, 0):
                self._noticed[part.name] = offset + 1
                self._notices.append(notice)

    def _needed_entry(
        self, first: TableGroup, reading: Reading, messages: Messages, known: HistoryState, topic: str
    ) -> Entry:
        """Return the history entry that the first messages of a partition need. Raises SchemaUnknown."""
        group = statements.up_to_statement(first, reading)
        refused = self._tables.refusal_of(group, known)
        if refused is not None and self._skips:
            group = first  # the task will omit messages whose rows cannot be rows of this table
        elif refused is not None:
            text = f"{group.table}: {refused.message}"
            raise SchemaUnknown(text, where=messages.where(int(first.images.messages[0])), hint=refused.hint)
        schema = self._tables.needed(group, known.schemas.get(group.table))
        if group.table not in known.schemas and not schema.primary_key:
            self._notices += self._tables.unread_keys(group, messages)
        return known.entry(group.table, schema, topic)

    def lag(self, *, last: bool = False) -> int:
        """The approximate bytes that are not planned yet: messages times their average size.

        `last`: include those of the last batch, or of the one being made.
        """
        return self._partitions.lag(self._making.rows if last and self._making is not None else 0)

    def stop(self) -> None:
        """Close the connection."""
        self.stopped = True
        self._partitions.close()
