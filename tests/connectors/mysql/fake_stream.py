"""Replication streams that say what a test wants: chunks, silence, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.server.positions import LogPosition

Step = ReceiveBuffer | None | Exception


class FakeStream:
    """Gives its steps one by one; when they are used up, what `then` gives."""

    def __init__(self, steps: Sequence[Step], then: Callable[[], Step] = lambda: None) -> None:
        self._steps, self._then = list(steps), then
        self.closed = False
        self.file, self.position = "binlog.000001", 4

    def read(self, timeout_s: float, up_to: LogPosition | None = None) -> ReceiveBuffer | None:
        step = self._steps.pop(0) if self._steps else self._then()
        if isinstance(step, Exception):
            raise step
        return step

    def interrupt(self) -> None:
        """No `read` of it waits for long."""

    def close(self) -> None:
        self.closed = True


class FakeServer:
    """Hands out one stream after the other and notes where each was opened; an exception stands for a refusal."""

    def __init__(self, *streams: FakeStream | Exception) -> None:
        self._streams = list(streams)
        self.opened: list[tuple[str, int, bool]] = []

    def open(self, at: LogPosition, until_end: bool = False) -> FakeStream:
        self.opened.append((at.file, at.position, until_end))
        stream = self._streams.pop(0)
        if isinstance(stream, Exception):
            raise stream
        return stream
