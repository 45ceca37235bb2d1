"""Handle messages larger than the topics take: stop the run and name them, or keep them as dead letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import TracebackType

import numpy as np

from cdc.dead_letters import DeadLetter, DeadLetters, Rejected, folder_of
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.kafka.encoding.encoder import EncodedMessages
from connectors.kafka.encoding.records import Record

_OVERHEAD = 512
"""The most bytes of a record and its batch besides key, value and headers, which count for the client's limit."""

COUNTED = "too-large-dead-letter"


class OversizedRecords:
    """Removes the records that are too large to send. Executor; one per task.

    As a context manager, it publishes its files at the end. A file has the name of its task, so a task that is tried
    again overwrites it.
    """

    def __init__(self, most: int, folder: str | None, name: str, attempt: int) -> None:
        """`most`: the bytes that a message may have. `folder`: folder or URL of the dead letters; None to stop."""
        self._most, self._place, self._name, self._attempt = most, folder, name, attempt
        self._files: dict[TableId, DeadLetters] = {}
        self.counts: Counter[TableId] = Counter()

    def __enter__(self) -> OversizedRecords:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._files.values():
            file.close() if kind is None else file.discard()

    def without_oversized(self, topic: str, messages: EncodedMessages) -> EncodedMessages:
        """The messages without those that are too large. Raises SinkError for one that is not or cannot be kept."""
        found = np.flatnonzero(messages.sizes + _OVERHEAD > self._most).tolist()
        if not found:
            return messages
        reasons = {index: self._reason(int(messages.sizes[index])) for index in found}
        if self._place is None:
            index = int(messages.sizes.argmax())
            raise SinkError(
                reasons[index],
                where=f"{messages.table}, key {_key(messages.records[index]) or 'none'}, topic {topic}",
                hint="raise properties.max.request.size, and max.message.bytes of the topic; leave the column out; or "
                "name a sink.dead-letter.path",
            )
        self._keep(topic, messages, reasons)
        indices = [index for index in range(len(messages)) if index not in reasons]
        headers = {now: messages.headers[index] for now, index in enumerate(indices) if index in messages.headers}
        records = [messages.records[index] for index in indices]
        return replace(messages, records=records, sizes=messages.sizes[indices], headers=headers)

    def _reason(self, size: int) -> str:
        return f"a message of {size:,} bytes is larger than {self._most:,}"

    def _keep(self, topic: str, messages: EncodedMessages, reasons: dict[int, str]) -> None:
        table = messages.table
        if table not in self._files:
            self._files[table] = DeadLetters(self._place or "", f"{folder_of(table)}/{self._name}", self._attempt)
        self._files[table].write(
            DeadLetter(
                str(table), "", "message", {"key": _key(messages.records[index])}, (Rejected(topic, "topic", reason),),
                {"value": messages.records[index].get("value", b"").decode(errors="replace")},
            )
            for index, reason in reasons.items()
        )  # fmt: skip
        self.counts[table] += len(reasons)


def _key(record: Record) -> str:
    return record.get("key", b"").decode(errors="replace")[:200]
