"""One open load of one table, driven by `connectors.shared.sending.sender`: the part common to all kinds of loads.

Nothing is opened before the first row is sent. Executor.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters
from cdc.errors import SinkError
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from connectors.shared.sending.sender import FlushResult
from connectors.shared.streamload.flush import EncodedFlush, FlushEncoder

STRICT = {"strict_mode": "true", "max_filter_ratio": "0"}
"""Headers of every load: without them an unreadable value silently becomes NULL."""


class Body(Protocol):
    """The receiver of load text."""

    def write(self, data: memoryview) -> bool:
        """Send a piece; False when the server has answered instead of accepting it. Raises SinkError."""

    def cancel(self) -> None:
        """Abort; never raises. May be called from another thread."""


BodyT = TypeVar("BodyT", bound=Body)


class TableLoad(ABC, Generic[BodyT]):
    """Checks, encodes and sends flushes. Used by one thread at a time; `cancel` may be called from another."""

    def __init__(
        self, table: TableId, label: str, encoder: FlushEncoder, dead_letters: DeadLetters, retry: RetryPolicy
    ) -> None:
        """`retry`: how long to wait for a server that cannot accept the load; a cancelled load stops waiting."""
        self._table, self._label = table, label
        self._encoder, self._dead_letters = encoder, dead_letters
        self._body: BodyT | None = None
        self._rows = 0
        self._lock = threading.Lock()
        self._cancelled = False
        self._retry = replace(retry, stopping=lambda: self._cancelled or retry.stopping())

    def write(self, blocks: Sequence[ChangeBlock]) -> FlushResult | None:
        """Check, encode and send a flush. Returns None when its text needs other headers than those sent."""
        encoded = self._encoder.encode(blocks, headers_sent=self._body is not None)
        if encoded is None:
            return None
        if encoded.rows:
            body = self._body or self._retry.call(lambda: self._open_body(encoded), f"a load into {self._table}")
            if not body.write(encoded.text):
                self._raise_refusal(body)
            self._rows += encoded.rows
        self._dead_letters.write(encoded.dead_letters)
        return encoded.written

    def finish(self) -> Any:
        """Finish and check the load; returns the handle."""
        handle = self._nothing() if self._body is None else self._finish_body(self._body)
        self._dead_letters.close()
        return handle

    def cancel(self) -> None:
        """Abort, once."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            body = self._body
        if body is not None:
            body.cancel()
        self._dead_letters.discard()
        self._give_up()

    def _open_body(self, encoded: EncodedFlush) -> BodyT:
        body = self._open(encoded)
        with self._lock:
            self._body, cancelled = body, self._cancelled
        if cancelled:
            body.cancel()
            self._give_up()
            raise SinkError("the load was cancelled", where=self._where)
        return body

    @property
    def _where(self) -> str:
        return f"{self._table}, label {self._label}" if self._label else str(self._table)

    @abstractmethod
    def _open(self, encoded: EncodedFlush) -> BodyT:
        """Begin the load with this first flush. Retried after retryable errors."""

    @abstractmethod
    def _raise_refusal(self, body: BodyT) -> NoReturn:
        """Raise the error for an answer that came before the body was complete."""

    @abstractmethod
    def _finish_body(self, body: BodyT) -> Any:
        """End the body, check the loaded rows, return the handle. Raises SinkError."""

    @abstractmethod
    def _nothing(self) -> Any:
        """Return the handle of a load without rows."""

    def _give_up(self) -> None:
        """Remove what the server keeps of a cancelled load; never raises."""
