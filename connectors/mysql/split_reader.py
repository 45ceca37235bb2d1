"""Reads the rows of a split for a task: a range of the server's log, or chunks. Executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from cdc.block import ChangeBlock
from cdc.source import Count, Report, Split
from connectors.mysql.log_reader import LogReader
from connectors.mysql.parts import Parts
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.snapshot.plan.payloads import load_payload
from connectors.mysql.snapshot.plan.splits import ChunkRead, FilteredRange


@dataclass(frozen=True, slots=True)
class SplitReader:
    """Reads splits of one pipeline, over its own connections."""

    parts: Parts

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Read the blocks of a split. Raises SourceError."""
        split = load_payload(split)
        parts, payload = self.parts, split.payload
        if isinstance(payload, ChunkRead):
            from connectors.mysql.snapshot.read.reading import read_chunks

            return read_chunks(split, parts.options, parts.context.store, parts.streams, parts.captures, count, report)
        if isinstance(payload, FilteredRange):
            return self._filtered(payload, split.index, count, report)
        return LogReader(parts).read(payload, split.index, count, report, lambda: None)

    def _filtered(self, wanted: FilteredRange, index: int, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Read a range of the log without the rows that chunks hold."""
        from connectors.mysql.snapshot.filter.tail_filter import TailFilter, report_uncertain

        tables = self.parts.schemas.history.tables(wanted.part.schemas)
        with closing(LazySession(self.parts.streams.session)) as session:
            kept = TailFilter.of(wanted, self.parts.context.store, tables, session.only_row)
            moved = partial(report_uncertain, wanted, kept, report)
            yield from kept.blocks(LogReader(self.parts).read(wanted.part, index, count, report, moved))

    def warm(self) -> None:
        """Load the kernels; the first run on a machine compiles them."""
        from connectors.mysql.snapshot.read.warm import warm_kernels

        warm_kernels(snapshots=self.parts.given.startup_mode in ("initial", "snapshot"))
