"""The `binlog-files` source: archived binary log files, planned and decoded by the same code as a live server's log.

As in `source`, modules that load compiled kernels are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from cdc.block import ChangeBlock
from cdc.events import SourceEvent
from cdc.process.stopwatch import in_phase
from cdc.schema import TableId, TableSchema
from cdc.source import Context, Count, Lag, Limits, Offset, Report, Source, Split
from connectors.mysql.file_planner import FilePlanner
from connectors.mysql.log.log_files import LogFiles
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import LogRange, splits_of
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import BinlogFilesSourceOptions
from connectors.mysql.schema.schemas import Schemas, of_captured
from connectors.mysql.snapshot.plan.payloads import dump_payloads, load_payload


class BinlogFilesSource(Source):
    """Reads archived binary log files. Offsets are `MySqlOffset`s whose `file` is a file name without its folder."""

    bounded = True

    def __init__(self, options: BinlogFilesSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._captures = options.pattern.matches

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_schemas", "_planner")}

    @cached_property
    def _planner(self) -> FilePlanner:
        return FilePlanner(self._options, self._context.store)

    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables as they are at the end of the files, after all their statements."""
        return self._planner.tables(at_end=True)

    def reach(self) -> None:
        """Raise SourceError where a pattern of `path` matches no file of this machine."""
        LogFiles(self._options.paths)

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables defined by `schema-files`, none without such files. Reads nothing of the log."""
        return self._planner.tables(at_end=False)

    def initial_offset(self) -> Offset:
        """Return the beginning of the first file, with the definitions from `schema-files`."""
        return self._planner.begin(self._schemas).to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """Plan until a batch is full or the files end; never waits.

        An error is raised only after all data before it.
        """
        at = MySqlOffset.from_json(start)
        first = self._schemas.first_entries() if at.schemas == 0 else 0
        end = replace(at, schemas=first) if first else self._planner.next(at, limits)
        return start if end == at else end.to_json()

    def stop_at_current(self) -> None:
        """Do nothing: files end on their own."""

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Cut at transaction ends when the batch is big and was planned by this process; else one split."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        planned = self._planner.planned
        segments = planned[1] if planned is not None and planned[0] == stop else None
        return dump_payloads(splits_of(segments, begin, stop, parallelism))

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """Return the schema history's entries between the two offsets."""
        self._planner.pattern.note()
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        return of_captured(self._schemas.events(begin.schemas, stop.schemas), self._captures)

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range, which may span files."""
        from connectors.mysql.rows.metadata import LogMetadata

        part: LogRange = load_payload(split).payload
        rows, metadata = self._schemas.decoder(part.schemas, self._captures, count), LogMetadata(self._context.metadata)
        for buffer in LogFiles(self._options.paths).buffers(part.start, part.end):
            yield from in_phase("decode", metadata.blocks(buffer, rows.decode))

    def position_text(self, sequence: int) -> str:
        """Format a sequence number as log file number and position."""
        return sequence_text(sequence)

    def lag(self) -> Lag | None:
        """Return notices caused by statements in the files; no figures."""
        return Lag.with_notices(self._planner.notices) if self._planner.notices else None

    def warm(self) -> None:
        """Load the decoder's kernels; the first run on a machine compiles them."""
        from connectors.mysql.rows.warm import warm_kernels

        warm_kernels()

    @cached_property
    def _schemas(self) -> Schemas:
        """The schema history; cached so that its file is read on, not again."""
        return Schemas(self._context.store, self._options)
