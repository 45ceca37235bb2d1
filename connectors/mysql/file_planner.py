"""Batches of archived log files, and the definitions at their beginning and end.

Modules that load compiled kernels are imported where they are used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cdc.errors import SourceError
from cdc.schema import TableId, TableSchema
from cdc.source import Limits
from cdc.state.store import LocalStore, Store
from connectors.mysql.captured_pattern import CapturedPattern
from connectors.mysql.log.log_files import LogFiles, matching
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.read_files import ReadFiles
from connectors.mysql.log.segment import Segment, SegmentQueue, end_offset
from connectors.mysql.options import BinlogFilesSourceOptions
from connectors.mysql.schema.schema_files import define_from
from connectors.mysql.schema.schemas import Schemas, StartingDefinitions, shown_schema
from connectors.shared.ddl.dialect import DdlDialect


class FilePlanner:
    """Plans batches one after the other, in one process.

    Attributes:
        pattern: the table patterns used earlier.
        planned: the end of the last batch and its segments; None before the first.
        notices: lines for the user, caused by statements in the files.
    """

    def __init__(self, options: BinlogFilesSourceOptions, store: Store) -> None:
        self._options, self._store, self._captures = options, store, options.pattern.matches
        self.pattern = CapturedPattern(store, options)
        self._segments: Iterator[Segment] | None = None
        self._queue = SegmentQueue()
        self._error: SourceError | None = None
        self.planned: tuple[MySqlOffset, list[Segment]] | None = None
        self.notices: list[str] = []

    def begin(self, schemas: Schemas) -> MySqlOffset:
        """Return the beginning of the first file, with the definitions from `schema-files`. Raises SourceError."""
        start = self._begin(schemas, LogFiles(self._options.paths))
        self.pattern.remember()
        return start

    def tables(self, *, at_end: bool) -> Mapping[TableId, TableSchema]:
        """Return the captured tables as defined by `schema-files`, or as they are after all statements of the files."""
        files = LogFiles(self._options.paths)
        with tempfile.TemporaryDirectory() as folder:
            schemas = Schemas(LocalStore(Path(folder)), self._options)
            start = self._begin(schemas, files)
            count = schemas.history.count()
            if at_end:
                last = list(self._plan(schemas, replace(start, schemas=count), files, None, []))[-1:]
                count = last[0].schemas if last else schemas.history.count()
            found = schemas.history.tables(count)
        return {table: shown_schema(known, self._options) for table, known in found.items() if self._captures(table)}

    def next(self, start: MySqlOffset, limits: Limits | None) -> MySqlOffset:
        """Return the end of the next batch; `start` when the files end.

        An error is raised only after all data before it.
        """
        if self._segments is None:
            fresh = Schemas(self._store, self._options)
            self._check_edited(start, fresh)
            files = LogFiles(self._options.paths)
            ReadFiles(self._store).check(files.paths)
            self._segments = self._plan(fresh, start, files, limits, self.notices)
        self._fill(self._segments, limits)
        batch = self._queue.poll(limits)
        if not batch and self._error is not None:
            raise self._error
        if not batch:
            return start
        end = end_offset(start, batch)
        ReadFiles(self._store).note(LogFiles(self._options.paths).paths, start.position.file, end.position.file)
        self.planned = (end, batch)
        return end

    def _check_edited(self, start: MySqlOffset, schemas: Schemas) -> None:
        """Raise SourceError for newly captured tables whose rows were skipped in the part already read.

        This source cannot copy them.
        """
        if self.pattern.unchanged:
            return
        followed = schemas.history.followed(start.schemas)
        wanted = {table for table in schemas.history.tables(start.schemas) if self._captures(table)}
        missed = sorted(str(table) for table in wanted if table not in followed or not self.pattern.matched(table))
        if missed:
            raise SourceError(
                f"{', '.join(missed[:5])}: matches since the pipeline file was edited, and what was read of the log "
                "before is without it",
                where="source.tables",
                hint="leave it out with tables.exclude, or start over with another --state-dir",
            )
        self.pattern.note()

    def _fill(self, segments: Iterator[Segment], limits: Limits | None) -> None:
        """Read ahead until more than one batch is queued, the files end, or the log cannot be followed."""
        while self._error is None and (limits is None or self._queue.bytes <= limits.max_bytes):
            try:
                segment = next(segments, None)
            except SourceError as error:
                self._error = error
                return
            if segment is None:
                return
            self._queue.put(segment)

    def _begin(self, schemas: Schemas, files: LogFiles) -> MySqlOffset:
        first = files.first
        dialect = files.dialect(first.file)
        schemas.begin(self._declared(dialect), self._captures, first, dialect)
        return MySqlOffset(first)

    def _declared(self, dialect: DdlDialect) -> StartingDefinitions:
        """Return the captured tables of `schema-files`."""
        with tempfile.TemporaryDirectory() as folder:
            catalog = Schemas(LocalStore(Path(folder)), self._options).catalog(0, self._captures, dialect, 0)
        for path in matching(self._options.schema_paths, "schema-files"):
            define_from(path, catalog)
        return StartingDefinitions(tuple(catalog.captured.values()), dict(catalog.databases))

    def _plan(
        self, schemas: Schemas, start: MySqlOffset, files: LogFiles, limits: Limits | None, notices: list[str]
    ) -> Iterator[Segment]:
        from connectors.mysql.follow.segmenter import Segmenter

        position = start.position
        dialect = files.dialect(position.file)
        tracker = schemas.tracker(start.schemas, self._captures, dialect, 0, notices)
        segmenter = Segmenter(tracker, self._captures, file=position.file, position=position.position, limits=limits)
        for buffer in files.buffers(position):
            yield from segmenter.feed(buffer)
