"""Send the bulk requests of a decided batch in order, and judge the answer item by item. Runs in the driver.

The answer's status 200 does not mean success: each item has its own status. External versions make it safe to send an
item repeatedly: the server answers 409 to one that is older than the document it has.

| item | what it means |
|---|---|
| 2xx; 404 of a delete | done |
| 200 and `noop` | an ingest pipeline of the index has dropped the document: an error |
| 409, the stored version is of this batch | an earlier attempt sent a later part of the batch: done |
| 409, the stored version is of a later batch or epoch | somebody else writes the index: an error |
| 429, 503 | the cluster is busy: the item is sent again, with growing pauses |
| 400 for the document's content; 413 for one document | the document is refused: an error, or it is returned |
| anything else | the index accepts no documents (read-only, closed, missing): an error with the server's reason |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from cdc.errors import SinkError, SinkUnavailable
from connectors.elasticsearch.client import ErrorAnswer, SearchClient

_PATH = "/_bulk?filter_path=errors,items.*.error,items.*.status,items.*.result"
_LATER = frozenset({429, 503})
_INDEX_SAYS = frozenset({"index_closed_exception", "invalid_index_name_exception", "routing_missing_exception"})
_INDEX_REASONS = ("no write index is defined", "pipeline with id")
"""Parts of the refusals with status 400 that concern the index, not the document."""
_BUSY_HINTS = {
    "read-only-allow-delete": "a disk of the cluster is nearly full, free space there; where the block stays then: "
    'PUT /INDEX/_settings {"index.blocks.read_only_allow_delete": null}',
}
"""Hints for the reasons why documents have to be sent again, by a part of the server's message."""
_THERE = re.compile(r"current version \[(-?\d+)\]")
_EPOCH_BITS, _BATCH_BITS, _PART_BITS = 10, 36, 16


def version(epoch: int, batch: int, partition: int) -> int:
    """The version of the documents in one part of a batch: greater for later batches and epochs. Below 2^62."""
    parts = ((epoch, _EPOCH_BITS, "epoch"), (batch, _BATCH_BITS, "batch"), (partition, _PART_BITS, "part"))
    for value, bits, name in parts:
        if not 0 <= value < 1 << bits:
            raise SinkError(f"the {name} {value} is beyond {bits} bits of a document's version")
    return (epoch << _BATCH_BITS | batch) << _PART_BITS | partition


def epoch_of(number: int) -> int:
    """The epoch that a version contains."""
    return number >> _BATCH_BITS + _PART_BITS


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document that the server refuses: its number in the body, the server's reason, and the item's text."""

    number: int
    reason: str
    item: bytes


@dataclass(slots=True)
class _RemainingBody:
    """The part of a body that is not stored yet, and the documents of the body that were refused so far."""

    text: bytes
    numbers: Sequence[int]
    refused: list[RefusedDocument] = field(default_factory=list)
    reason: str = ""
    """The server's reason for the first item that has to be sent again."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the bodies of one batch over a few connections.

    `check_owner` raises SinkError when another run has taken over. It is called before a request is repeated, because
    the server forgets the versions of deleted documents when it restarts. With `collect_refused`, refused
    documents are returned; otherwise the first one is an error.
    """

    client: SearchClient
    connections: int
    check_owner: Callable[[], None]
    collect_refused: bool = False

    def send(self, bodies: Sequence[bytes], highest: int) -> list[list[RefusedDocument]]:
        """Send bodies whose documents are all different, in any order, until all are stored; return the refused ones.

        `highest` is the highest version of this batch. Raises SinkError for a refused document unless those are kept,
        and SinkUnavailable when the cluster stays away. Sending the whole batch again is safe.
        """
        if len(bodies) == 1 or self.connections == 1:
            return [self._send_until_done(body, highest) for body in bodies]
        with ThreadPoolExecutor(min(self.connections, len(bodies)), thread_name_prefix="cdc-bulk") as pool:
            return [done.result() for done in [pool.submit(self._send_until_done, body, highest) for body in bodies]]

    def _send_until_done(self, body: bytes, highest: int) -> list[RefusedDocument]:
        """Send one body, and then the rest of it, until every document is stored or refused."""
        left, repeated = _RemainingBody(body, range(len(body))), False

        def once() -> None:
            nonlocal left, repeated
            if repeated:
                self.check_owner()
            repeated = True
            left = self._send_once(left, highest)
            if left.text:
                raise self._busy(left.reason)

        self.client.retry.call(once, "a bulk request")
        return left.refused

    def _busy(self, reason: str) -> SinkUnavailable:
        hint = next((hint for pattern, hint in _BUSY_HINTS.items() if pattern in reason), "")
        message = f"the cluster accepts no more documents at the moment (429): {reason}"
        return SinkUnavailable(message[:600], where=self.client.hosts[0], hint=hint)

    def _send_once(self, body: _RemainingBody, highest: int) -> _RemainingBody:
        """Send the body once, and return the items that have to be sent again."""
        try:
            answer = self.client.send("POST", _PATH, body.text, "application/x-ndjson", wait=False)
        except ErrorAnswer as refused:
            if refused.status == 413:
                return self._halves(body, highest)
            hint = "let the cluster accept writes again; nothing of the request is stored, a new run sends it"
            raise SinkError(str(refused), where=self.client.hosts[0], hint=hint) from None
        dropped = any(found.get("result") == "noop" for item in answer.get("items", ()) for found in item.values())
        if not dropped and not answer.get("errors"):
            return _RemainingBody(b"", (), body.refused)
        retried, numbers, documents, first_reason = [], [], list(body.refused), ""
        for index, (item, text) in enumerate(zip(answer["items"], items(body.text), strict=True)):
            action, found = next(iter(item.items()))
            if self._is_later(action, found, text, highest):
                first_reason = first_reason or _reason(found)
                retried.append(text)
                numbers.append(body.numbers[index])
            elif self.collect_refused and _is_refused(found):
                documents.append(RefusedDocument(body.numbers[index], _reason(found), text))
        return _RemainingBody(b"".join(retried), numbers, documents, first_reason)

    def _halves(self, body: _RemainingBody, highest: int) -> _RemainingBody:
        """Send a body in two halves because it is larger than the server takes."""
        parts = list(items(body.text))
        if len(parts) == 1:
            message = f"a document of {len(body.text)} bytes is larger than the server accepts"
            if self.collect_refused:
                return _RemainingBody(b"", (), [*body.refused, RefusedDocument(body.numbers[0], message, body.text)])
            hint = "raise http.max_content_length of the server, or leave the column out with a projection"
            raise SinkError(message, where=", document ".join(_address(body.text)), hint=hint)
        middle = len(parts) // 2
        one = self._send_once(_RemainingBody(b"".join(parts[:middle]), body.numbers[:middle], body.refused), highest)
        other = self._send_once(_RemainingBody(b"".join(parts[middle:]), body.numbers[middle:], one.refused), highest)
        first_reason = one.reason or other.reason
        return _RemainingBody(one.text + other.text, [*one.numbers, *other.numbers], other.refused, first_reason)

    def _is_later(self, action: str, found: Mapping[str, Any], item: bytes, highest: int) -> bool:
        """Whether an item has to be sent again. Raises SinkError for one that failed for good and is not kept.

        `action` and `found` are the server's answer to the item.
        """
        status = int(found["status"])
        if found.get("result") == "noop":
            raise _dropped_error(item)
        if status < 300 or (action == "delete" and status == 404 and not found.get("error")):
            return False
        if status in _LATER:
            return True
        reason = _reason(found)
        if status == 409 and (existing := _THERE.search(reason)) and int(existing[1]) <= highest:
            return False
        where, document = _address(item)
        if status == 409:
            hint = "end the other pipeline that writes this index; then `cdc resync` the table"
            message = f"the document {document} is of a later batch than this pipeline has written: {reason}"
            raise SinkError(message, where=where, hint=hint)
        if not _is_refused(found):
            hint = "let the index accept documents again; earlier documents are stored, a new run continues from here"
            raise SinkError(f"the index accepts no documents: {reason} (HTTP {status})"[:2_000], where=where, hint=hint)
        if self.collect_refused:
            return False
        hint = "change the mapping or the value; or leave such documents out with sink.invalid-values: dead-letter, or "
        hint += "keep such values unsearched with mapping.ignore-malformed: true (new indexes)"
        raise SinkError(f"the document {document} is refused: {reason}"[:2_000], where=where, hint=hint)


def _dropped_error(item: bytes) -> SinkError:
    """The error about a document that the server reported as a success but did not store."""
    where, document = _address(item)
    message = f"an ingest pipeline of the index has dropped the document {document}"
    hint = (
        'take index.default_pipeline and index.final_pipeline off the index ("_none"), or leave such rows out with a '
        "filter of the pipeline file"
    )
    return SinkError(message, where=where, hint=hint)


def _is_refused(found: Mapping[str, Any]) -> bool:
    """Whether the server refused the document for its content, not because of the index."""
    error = found.get("error") or {}
    kind, reason = (error.get("type"), str(error.get("reason", ""))) if isinstance(error, dict) else ("", str(error))
    return int(found["status"]) == 400 and kind not in _INDEX_SAYS and not reason.startswith(_INDEX_REASONS)


def _reason(found: Mapping[str, Any]) -> str:
    """The server's reason in an item of the answer."""
    error = found.get("error") or {}
    if not isinstance(error, dict):
        return str(error)
    reason, cause = str(error.get("reason", "")), str((error.get("caused_by") or {}).get("reason", ""))
    return f"{reason} ({cause})" if cause else reason


def _address(item: bytes) -> tuple[str, str]:
    """The index and id of an item's document, for messages."""
    action: dict[str, Any] = next(iter(json.loads(item[: item.index(b"\n")]).values()))
    return str(action["_index"]), str(action["_id"])


def items(body: bytes) -> Iterator[bytes]:
    """The items of a body: each an action line, followed by the document's line unless it is a delete."""
    at = 0
    while at < len(body):
        end = body.index(b"\n", at) + 1
        if not body.startswith(b'{"delete"', at):
            end = body.index(b"\n", end) + 1
        yield body[at:end]
        at = end
