"""The rows of a range of a server's log, for a task: read and decoded here, or taken from another run. Executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from cdc.block import ChangeBlock
from cdc.source import Context, Count
from cdc.timing import in_phase
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.moved_range import read_anywhere
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts
from connectors.mysql.rows.metadata import LogMetadata, shown_by_log
from connectors.mysql.sharing.decoded import Elsewhere, SharedBlocks


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reads ranges of one pipeline's log."""

    options: MySqlSourceOptions
    context: Context
    streams: Streams
    parts: Parts

    def blocks(self, part: LogRange, index: int, count: Count, moved: Callable[[], None]) -> Iterator[ChangeBlock]:
        """The range of the split of this number; `moved` is called when it was read on another server."""
        names, siblings = (*self.options.metadata_names(), *self.context.metadata), self.context.siblings
        if siblings is None:
            return self._read(part, index, count, moved, names)
        names = (*names, *siblings.metadata)

        def decode(count: Count, moved: Callable[[], None]) -> Iterator[ChangeBlock]:
            return self._read(part, index, count, moved, names)

        options = self.options
        made_of = (
            self.parts.schemas.digest(part.schemas), options.tinyint1_as_boolean, options.invalid_dates,
            options.invalid_text,
        )  # fmt: skip
        for_all, alone = partial(decode, moved=_elsewhere), partial(decode, count, moved)
        return SharedBlocks(siblings).read(part, made_of, shown_by_log(names), for_all, alone, count)

    def _read(
        self, part: LogRange, index: int, count: Count, moved: Callable[[], None], names: Sequence[str]
    ) -> Iterator[ChangeBlock]:
        """The range off the server's log, with these columns of metadata."""
        rows = self.parts.schemas.decoder(part.schemas, self.parts.wanted, count)
        reader, elsewhere = 1 + index, False

        def holding(wanted: LogRange) -> tuple[BinlogStream, bool]:
            nonlocal elsewhere
            elsewhere = True
            return self.streams.holding(wanted, reader=reader)

        by_position = partial(self.streams.at, reader=reader, server=part.server)
        metadata = LogMetadata(names)
        for chunk in read_anywhere(part, by_position, holding, self.streams.retry):
            yield from in_phase("decode", metadata.blocks(chunk, rows.decode))
        if elsewhere:
            moved()


def _elsewhere() -> None:
    raise Elsewhere
