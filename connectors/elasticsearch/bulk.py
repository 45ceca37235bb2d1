"""Bulk requests of a decided batch: sent in order, judged item by item. Driver.

An answer of 200 says nothing: each item has its own status. With external versions an item may be sent again and again;
the server answers 409 to one that is older than what it has.

| item | what it means |
|---|---|
| 2xx; 404 of a delete | done |
| 409, the version there is of this batch | a later part of the batch was sent before, by an earlier try: done |
| 409, the version there is of a later batch or epoch | somebody else writes the index: an error |
| 429, 503 | later: sent again, alone, with growing pauses |
| anything else | the document is refused: an error with the server's words |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cdc.errors import SinkError, SinkUnavailable
from connectors.elasticsearch.client import Answer, Client

_PATH = "/_bulk?filter_path=errors,items.*.error,items.*.status,items.*._id,items.*._index"
_LATER = frozenset({429, 503})
_THERE = re.compile(r"current version \[(-?\d+)\]")
_EPOCH_BITS, _BATCH_BITS, _PART_BITS = 10, 36, 16


def version(epoch: int, batch: int, partition: int) -> int:
    """The version of documents of one part of a batch: later batches and newer epochs are greater. Below 2^62."""
    parts = ((epoch, _EPOCH_BITS, "epoch"), (batch, _BATCH_BITS, "batch"), (partition, _PART_BITS, "part"))
    for value, bits, what in parts:
        if not 0 <= value < 1 << bits:
            raise SinkError(f"the {what} {value} is beyond {bits} bits of a document's version")
    return (epoch << _BATCH_BITS | batch) << _PART_BITS | partition


def epoch_of(number: int) -> int:
    """The epoch in a version."""
    return number >> _BATCH_BITS + _PART_BITS


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends bodies of one batch over a few connections.

    `check_owner` raises SinkError when another run has gone on from here. It is called before a request is repeated:
    the server may have been restarted meanwhile, which forgets the versions of deleted documents.
    """

    client: Client
    connections: int
    check_owner: Callable[[], None]

    def send(self, bodies: Sequence[bytes], highest: int) -> None:
        """Send bodies whose documents are all different, in any order; returns when all are in.

        `highest` is the highest version of this batch. Raises SinkError for a document that is refused, SinkUnavailable
        when the cluster stays away: sending all of the batch again is safe.
        """
        if len(bodies) == 1 or self.connections == 1:
            for body in bodies:
                self._whole(body, highest)
            return
        with ThreadPoolExecutor(min(self.connections, len(bodies)), thread_name_prefix="cdc-bulk") as pool:
            for done in [pool.submit(self._whole, body, highest) for body in bodies]:
                done.result()

    def _whole(self, body: bytes, highest: int) -> None:
        """One body, and what is left of it, until all of it is in."""
        left, repeated = body, False

        def once() -> None:
            nonlocal left, repeated
            if repeated:
                self.check_owner()
            repeated = True
            left = self._once(left, highest)
            if left:
                raise SinkUnavailable("the cluster takes no more documents just now (429)", where=self.client.hosts[0])

        self.client.retry.call(once, "a bulk request")

    def _once(self, body: bytes, highest: int) -> bytes:
        """Send; the items that are to be sent again."""
        try:
            answer = self.client.send("POST", _PATH, body, "application/x-ndjson", wait=False)
        except Answer as refused:
            if refused.status == 413:
                return self._halves(body, highest)
            hint = "the server refused the whole request; nothing of it is in"
            raise SinkError(str(refused), where=self.client.hosts[0], hint=hint) from None
        if not answer.get("errors"):
            return b""
        again = []
        for item, text in zip(answer["items"], items(body), strict=True):
            action, found = next(iter(item.items()))
            if self._is_later(action, found, highest):
                again.append(text)
        return b"".join(again)

    def _halves(self, body: bytes, highest: int) -> bytes:
        """A body that is larger than the server takes, in two parts."""
        parts = list(items(body))
        if len(parts) == 1:
            hint = "raise http.max_content_length of the server, or leave the column out with a projection"
            raise SinkError(f"a document of {len(body)} bytes is larger than the server takes", hint=hint)
        middle = len(parts) // 2
        left = [self._once(b"".join(part), highest) for part in (parts[:middle], parts[middle:])]
        return b"".join(left)

    def _is_later(self, action: str, found: dict[str, Any], highest: int) -> bool:
        """Whether an item has to be sent again. Raises SinkError for one that is refused."""
        status, error = int(found["status"]), found.get("error") or {}
        if status < 300 or (action == "delete" and status == 404 and not error):
            return False
        if status in _LATER:
            return True
        reason = str(error.get("reason", "")) if isinstance(error, dict) else str(error)
        if status == 409:
            there = _THERE.search(reason)
            if there and int(there[1]) <= highest:
                return False
            hint = "end the other pipeline that writes this index; then `cdc resync` the table"
            said = f"the document {found.get('_id')} is of a later batch than this pipeline has written: {reason}"
            raise SinkError(said, where=str(found.get("_index")), hint=hint)
        cause = error.get("caused_by", {}).get("reason", "") if isinstance(error, dict) else ""
        said = f"the document {found.get('_id')} is refused: {reason}" + (f" ({cause})" if cause else "")
        hint = "change the mapping or the value; or set mapping.ignore-malformed: true to keep such values unsearched"
        raise SinkError(said[:2_000], where=str(found.get("_index")), hint=hint)


def items(body: bytes) -> Iterator[bytes]:
    """The items of a body: an action line, and the document's line behind it unless it is a delete."""
    at = 0
    while at < len(body):
        end = body.index(b"\n", at) + 1
        if not body.startswith(b'{"delete"', at):
            end = body.index(b"\n", end) + 1
        yield body[at:end]
        at = end
