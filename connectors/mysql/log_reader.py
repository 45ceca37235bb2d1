"""Reads ranges of the server's log, decoded here or taken from another run. Executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from cdc.block import ChangeBlock
from cdc.errors import PositionLost
from cdc.process.stopwatch import in_phase
from cdc.source import Count, Report
from connectors.mysql.log.moved_range import read_anywhere
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.parts import Parts
from connectors.mysql.rows.metadata import LogMetadata, shown_by_log
from connectors.mysql.sharing.decoded import Elsewhere, SharedBlocks


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reads ranges for the tasks of one pipeline, over its own connections."""

    parts: Parts

    def read(
        self, part: LogRange, index: int, count: Count, report: Report, moved: Callable[[], None]
    ) -> Iterator[ChangeBlock]:
        """Read the range of split number `index`; calls `moved` if it was read on another server.

        With `scan.on-purged: resnapshot` a purged range ends early and is reported, and all tables are re-snapshotted.
        Raises SourceError, PositionLost.
        """
        try:
            blocks = self._decoded(part, index, count, moved)
            if self.parts.given.cascades == "copy":
                from connectors.mysql.snapshot.watched_parents import part_id, watch_parents

                blocks = watch_parents(blocks, self.parts.context.store, self.parts.captures, part_id(part))
            yield from blocks
        except PositionLost as error:
            if self.parts.given.on_purged == "fail":
                raise
            count(f"log-purged {error.where or part.start}", 1)
            report({"lost": str(part.start)})

    def _decoded(self, part: LogRange, index: int, count: Count, moved: Callable[[], None]) -> Iterator[ChangeBlock]:
        """Decode the range, or take its rows from another run."""
        names, siblings = (
            (*self.parts.given.metadata_names(), *self.parts.context.metadata),
            self.parts.context.siblings,
        )
        if siblings is None:
            return self._read_server(part, index, count, moved, names)
        names = (*names, *siblings.metadata)

        def decode(count: Count, moved: Callable[[], None]) -> Iterator[ChangeBlock]:
            return self._read_server(part, index, count, moved, names)

        made_of = (self.parts.schemas.digest(part.schemas), repr(self.parts.given.value_rules))
        for_all, alone = partial(decode, moved=_elsewhere), partial(decode, count, moved)
        return SharedBlocks(siblings).read(part, made_of, shown_by_log(names), for_all, alone, count)

    def _read_server(
        self, part: LogRange, index: int, count: Count, moved: Callable[[], None], names: Sequence[str]
    ) -> Iterator[ChangeBlock]:
        """Read the range from the server's log, with metadata columns `names`."""
        rows = self.parts.schemas.decoder(part.schemas, self.parts.captures, count)
        reader, elsewhere = 1 + index, False

        def holding(wanted: LogRange) -> tuple[BinlogStream, bool]:
            nonlocal elsewhere
            elsewhere = True
            return self.parts.streams.holding(wanted, reader=reader)

        by_position = partial(self.parts.streams.at, reader=reader, server=part.server)
        metadata = LogMetadata(names)
        for chunk in read_anywhere(part, by_position, holding, self.parts.streams.retry):
            yield from in_phase("decode", metadata.blocks(chunk, rows.decode))
        if elsewhere:
            moved()


def _elsewhere() -> None:
    raise Elsewhere
