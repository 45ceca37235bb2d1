"""What the next batch holds. Stream reader process.

The planner reads ahead: it looks at every message before a batch has it, so the schemas of the batch are known and
written to the history before its rows are prepared. A batch takes from each partition what fits the schemas that are
known; when nothing fits, the schemas are changed first, and the batch begins with that change. So a message that needs
another schema holds up its own partition only, and no other one notices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer

from cdc.errors import SchemaUnknown, SourceUnavailable
from cdc.flow.retry import RetryPolicy
from cdc.source import Limits
from connectors.kafka.client import SOURCE, Cluster
from connectors.kafka.fetch.fetcher import Fetched, Fetcher
from connectors.kafka.formats.detect import Formats
from connectors.kafka.formats.groups import Group, Messages
from connectors.kafka.read import records, startup, statements
from connectors.kafka.read.history import Entry, History, Known, carries_out, is_statement, partition_entry
from connectors.kafka.read.offset import KafkaOffset, topic_partition
from connectors.kafka.read.ordered import IDLE_S, Order
from connectors.kafka.read.records import Lost, Pending
from connectors.kafka.read.tables import Tables
from connectors.kafka.source_options import KafkaSourceOptions

_AT_ONCE = 5_000
_LOOK_BYTES = 16 << 20
"""How many bytes of messages are looked at for what a table's schema needs, when nothing fits without."""
_DRAIN_S = 0.5
"""How long one batch is gathered for at most, once its first message is there."""


@dataclass(slots=True)
class _Fit:
    """How many of a partition's messages fit, and what the first one needs when none does.

    `behind`: the first one is behind a statement that is to be carried out before it.
    """

    count: int
    needs: list[Entry]
    behind: bool = False


@dataclass(slots=True)
class _Batch:
    """A batch in the making: where it ends in each partition so far, and partitions held up by the schemas."""

    known: Known
    ends: dict[str, int] = field(default_factory=dict)
    held: dict[str, _Fit] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    @property
    def waits(self) -> bool:
        """Whether nothing fits that was looked at."""
        return bool(self.held) and not self.ends

    def needs(self) -> list[Entry]:
        """What the first messages of held partitions need; of one table what the first of them needs.

        A statement comes alone: what the others need is found out with what it leaves.
        """
        found: dict[str, Entry] = {}
        for fit in self.held.values():
            for entry in fit.needs:
                if is_statement(entry):
                    return fit.needs
                found.setdefault(str(entry["table"]), entry)
        return list(found.values())


class TopicPlanner:
    """One per run. Not for use by two threads, but for `stopped` and `lag`.

    Args:
        notices: what the user is told once is added to it.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        history: History,
        tables: Tables,
        pipeline: str,
        notices: list[str],
    ) -> None:
        self._cluster, self._policy, self._options, self._history = cluster, policy, options, history
        self._tables, self._pipeline, self._notices = tables, pipeline, notices
        self._formats = Formats(options, options.registry(policy, SOURCE))
        self._order = Order(self._formats, self._ends_now)
        self._behind = set[str]()
        self._reader: Fetcher | None = None
        self._asker: Consumer | None = None
        self._parts: dict[tuple[str, int], Pending] = {}
        self._at: KafkaOffset | None = None
        self._ends: Mapping[str, int] | None = None
        self._looked_s = 0.0
        self._bytes = self._messages = 1
        self._told: dict[str, int] = {}
        self._making: _Batch | None = None
        self.full = False
        """Whether the last batch ended where its limits are, so that more is there."""
        self.stopped = False

    def bound(self) -> None:
        """From now on nothing counts that comes after what there is now."""
        names = startup.find_partitions(self._cluster, self._policy, self._options)
        self._ends = self._asked(startup.ends_of, names)
        self._order.idle_s = 0.0

    def next(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The end of the next batch, `start` when there is nothing. Raises SourceError."""
        self._begin(start)
        while True:
            end = self._next(start, limits, wait_s)
            # A bounded run ends with `start`: not while partitions are put behind others.
            if end != start or self._ends is None or self.stopped or (self._all_read(0) and not self._behind):
                self._rest()
                return end

    def ahead(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The end of the batch behind the last one, which ends at `start`, before it is asked for.

        Nothing is written: `start` where the history would need another entry; what was read is there for `next` then.
        """
        end = self._next(start, limits, wait_s, writes=False)
        self._rest()
        return end

    @property
    def looks(self) -> bool:
        """Whether it is time to look for new partitions, which only `next` does."""
        return not self._looked_s or time.monotonic() - self._looked_s >= self._options.discovery_interval_s

    def _rest(self) -> None:
        reader = self._reader
        if reader is not None:
            reader.rest()

    def _next(self, start: KafkaOffset, limits: Limits | None, wait_s: float, *, writes: bool = True) -> KafkaOffset:
        found = self._discovered(start) if writes else {}
        batch = self._fitting(len(self._history))
        if writes:  # what the last batch left because it did not fit is not held up again by what others have meanwhile
            batch = self._resolved(batch)
        self._gather(batch, limits, wait_s)
        if self._order.waits and not batch.ends:
            batch = self._fitting(batch.known.count)  # what a statement waits for may have come meanwhile
        resolved = self._resolved(batch) if writes else batch
        if resolved is not batch:
            batch = resolved
            self._gather(batch, limits, 0.0)
        count = batch.known.count
        if not batch.ends and not found:
            return start
        self.full = limits is not None and (batch.rows >= limits.max_rows or batch.bytes >= limits.max_bytes)
        places = dict(self._order.reached), dict(self._order.watched)
        self._at = KafkaOffset(count, {**start.partitions, **found, **batch.ends}, *places)
        return self._at

    def _fitting(self, count: int) -> _Batch:
        """What fits of the messages that are there, as the first `count` entries of the history say."""
        batch = self._making = _Batch(self._history.at(count))
        self._take(batch)
        return batch

    def _resolved(self, batch: _Batch) -> _Batch:
        """The batch; one that begins with what the first messages need, when nothing fits without."""
        needs = [] if batch.ends else batch.needs()
        if not needs:
            return batch
        if carries_out(needs[0]):
            self._order.carried(tuple(needs[0]["at"]), batch.known, self._parts)
        self._notices += statements.not_filled(needs, batch.known)
        found = self._fitting(self._history.append(needs))
        if not found.ends:
            part = next(part for part in self._parts.values() if part.name in found.held)
            raise SchemaUnknown(
                "this message does not fit the schema that was made for it",
                where=part.messages().where(0),
                hint="say in columns which types its columns have, or set value.format",
            )
        return found

    def _fetcher(self) -> Fetcher:
        if self._reader is None:
            self._reader = records.fetcher(self._cluster, self._pipeline)
        return self._reader

    def _ends_now(self, names: Sequence[str]) -> Mapping[str, int]:
        """Where partitions end, as far as this run reads."""
        if self._asker is None:
            self._asker = records.asker(self._cluster, self._pipeline)
        found = startup.ends_of(self._cluster, self._policy, self._asker, names)
        limits = self._ends
        return found if limits is None else {name: min(at, limits.get(name, 0)) for name, at in found.items()}

    def _asked(self, ask: Callable[..., dict[str, int]], names: Sequence[str]) -> dict[str, int]:
        """Offsets of partitions."""
        asker = records.asker(self._cluster, self._pipeline)
        try:
            return ask(self._cluster, self._policy, asker, names)
        finally:
            asker.close()

    def _begin(self, start: KafkaOffset) -> None:
        """Read on where the last batch ended; anywhere else, such as at the start of a run, is gone to."""
        if self._at == start:
            return
        self._history.truncate(start.schemas)
        self._parts, self._behind = {}, set()
        self._order = Order(self._formats, self._ends_now, 0.0 if self._ends is not None else IDLE_S, start)
        for name, at in start.partitions.items():
            topic, number = topic_partition(name)
            self._parts[topic, number] = Pending(topic, number, at)
        self._at = start
        self._assign()

    def _assign(self) -> None:
        self._order.assigned(self._parts)
        records.assign(self._fetcher(), [part for part in self._parts.values() if part.name not in self._behind])

    def _discovered(self, start: KafkaOffset) -> dict[str, int]:
        """Partitions that are new, with where they begin."""
        if not self.looks or self.stopped:
            return {}
        self._looked_s = time.monotonic()
        names, ends = startup.find_partitions(self._cluster, self._policy, self._options), self._ends
        new = [name for name in names if name not in start.partitions and (ends is None or name in ends)]
        if not new:
            return {}
        self._history.append([partition_entry(name) for name in new])
        found = self._asked(startup.beginnings_of, new)
        for name, at in found.items():
            topic, number = topic_partition(name)
            self._parts[topic, number] = Pending(topic, number, at)
        # Assigned anew from each partition's position: what was read and is not planned yet stays.
        self._assign()
        return found

    def _gather(self, batch: _Batch, limits: Limits | None, wait_s: float) -> None:
        """Read and plan until the limits are reached, or nothing more is there."""
        rows = limits.max_rows if limits is not None else 1 << 62
        room = limits.max_bytes if limits is not None else 1 << 62
        # Statements that wait take no room from the rows that they wait for.
        there = [part for part in self._parts.values() if not self._order.leads(part)]
        size = sum(part.bytes for part in there) + batch.bytes
        read = batch.rows + sum(map(len, there))
        began, wait = time.monotonic(), 0.0 if read else wait_s
        while read < rows and size < room and not self._all_read(read) and not self.stopped:
            if batch.waits and size >= _LOOK_BYTES:
                break
            found = self._fetcher().fetch(min(_AT_ONCE, rows - read), wait)
            size += self._collect(found)
            read += found.count
            self._take(batch)
            now = time.monotonic()
            if self._ends is None and (now - began > wait_s + _DRAIN_S or (not found and read)):
                break
            if self._ends is None and not read and now - began >= wait_s:
                break
            if self._ends is not None and not found and now - began > self._policy.timeout_s:
                raise SourceUnavailable("no answer while reading", where=self._cluster.where)
            wait = 0.02 if read else max(0.0, wait_s - (now - began)) if self._ends is None else 0.1

    def _take(self, batch: _Batch) -> None:
        """Plan what fits of each partition, up to the first message that does not."""
        if self._order.look(self._parts, batch.known, self._tables.takes) and self._behind:
            self._behind.clear()
            self._assign()
        for part in self._parts.values():
            while part.parts and part.name not in batch.held:
                if not self._order.open(part, self._parts):
                    self._put_behind(part)
                    break
                messages = part.messages(_LOOK_BYTES)
                fit = self._fit(part, messages, batch.known)
                if fit.count:
                    self._order.took(part, messages.part(0, fit.count))
                    batch.ends[part.name] = messages.place(fit.count - 1) + 1
                    batch.rows += fit.count
                    batch.bytes += part.drop(fit.count)
                if fit.count < len(messages):
                    batch.held[part.name] = fit
                    if fit.behind:
                        self._order.passed(part)
                        self._put_behind(part)

    def _put_behind(self, part: Pending) -> None:
        """What waits for other partitions takes no room from them: it is read again later."""
        self._behind.add(part.name)
        part.forget()
        self._assign()

    def _collect(self, found: Fetched) -> int:
        try:
            size = records.collect(self._cluster, found, self._parts)
        except Lost as error:
            if self._options.on_lost == "fail":
                raise
            self._jump(error.name)
            return 0
        self._bytes += size
        self._messages += found.count
        if self._ends is not None:
            for part in self._parts.values():
                part.cut(self._ends.get(part.name, 0))
        return size

    def _jump(self, name: str) -> None:
        """Go on at the first message that is there."""
        part = self._parts[topic_partition(name)]
        low = self._asked(startup.beginnings_of, [name])[name]
        self._notices.append(
            f"{part.topic}-{part.partition}: messages from offset {part.position} to {low} are gone, reading went on "
            f"at {low} (scan.on-lost: earliest)"
        )
        part.position = low
        self._assign()

    def _all_read(self, read: int) -> bool:
        """Nothing more is to come for this batch, of which `read` messages are here."""
        if self._ends is None:
            return read > 0 and all(part.at_end for part in self._parts.values())
        return all(
            part.at_end or part.position >= self._ends.get(part.name, 0) or part.name in self._behind
            for part in self._parts.values()
        )

    def _fit(self, part: Pending, messages: Messages, known: Known) -> _Fit:
        limit = self._order.limit(part, messages, known)
        behind = limit < len(messages)
        if not limit:
            return _Fit(0, [], behind)
        messages = messages.part(0, limit)
        found = self._formats.of(part.topic, messages)
        reading = found.read(messages)
        count, first = len(messages), None
        for group in (self._tables.described(item, found) for item in reading.groups):
            unfit = self._tables.first_unfit(group, known, part.topic)
            if unfit is not None and unfit < count:
                count, first = unfit, group
        around = statements.Around(known, self._tables, self._order, self._parts)
        due = statements.first_due(messages, reading, around)
        if due is not None and due[0] < count:
            count, first = due[0], None
        # Whether a statement can be carried out is only known when everything before it fits.
        for offset, notice in statements.left_out(messages, reading, around, count):
            if offset >= self._told.get(part.name, 0):
                self._told[part.name] = offset + 1
                self._notices.append(notice)
        if count:
            return _Fit(count, [], behind and count == limit)
        if first is None:
            return _Fit(0, due[1] if due else [])
        return _Fit(0, [self._need(statements.up_to_statement(first, reading), known, part.topic)])

    def _need(self, group: Group, known: Known, topic: str) -> Entry:
        schema = self._tables.needed(group, known.schemas.get(group.table))
        return known.entry(group.table, schema, topic)

    def lag(self, *, last: bool = False) -> int:
        """Bytes that were not planned yet, roughly: messages times what one has had so far.

        `last`: also those of the last batch, or of the one in the making.
        """
        if self._reader is None:
            return 0
        ahead = self._making.rows if last and self._making is not None else 0
        for part in list(self._parts.values()):
            ahead += len(part)
            marks = self._reader.marks(part.topic, part.partition)
            if marks is not None and marks[1] > part.position:
                ahead += marks[1] - part.position
        return ahead * self._bytes // self._messages

    def stop(self) -> None:
        """Close the connection."""
        self.stopped = True
        reader, self._reader = self._reader, None
        asker, self._asker = self._asker, None
        if reader is not None:
            reader.close()
        if asker is not None:
            asker.close()
