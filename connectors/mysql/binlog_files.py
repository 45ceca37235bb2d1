"""The `binlog-files` source: archived binary log files, planned and decoded by the same code as a live server's log.

As in `source`, what loads compiled kernels is imported where it is used.
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import SourceError
from cdc.events import SourceEvent
from cdc.schema import TableId, TableSchema
from cdc.source import Context, Count, Lag, Limits, Offset, Report, Source, Split
from cdc.state.store import LocalStore
from cdc.timing import in_phase
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.read_files import ReadFiles
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import LogRange, Segment, SegmentQueue, end_offset, splits_of
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import BinlogFilesSourceOptions
from connectors.mysql.schema.schema_files import define_from
from connectors.mysql.schema.schemas import Schemas, StartingDefinitions, of_captured, shown_schema
from connectors.mysql.server.positions import LogPosition, file_number
from connectors.mysql.snapshot.plan.captured import CapturedPattern
from connectors.mysql.snapshot.plan.payloads import dump_payloads, load_payload
from connectors.shared.ddl.dialect import DdlDialect

_FIRST_BYTES = 1 << 12
_BESIDE_LOGS = (".index", ".idx", ".state")
"""Files beside a server's logs: the list of them; MariaDB's index of GTIDs, since 11.4, and its last GTIDs."""


class BinlogFilesSource(Source):
    """Offsets are those of `MySqlOffset`; `file` is a file's name without its folder."""

    bounded = True

    def __init__(self, options: BinlogFilesSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._captures = options.pattern.matches
        self._segments: Iterator[Segment] | None = None
        self._queue = SegmentQueue()
        self._planned: tuple[MySqlOffset, list[Segment]] | None = None
        self._error: SourceError | None = None
        self._notices: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {
            "_segments": None, "_queue": SegmentQueue(), "_planned": None, "_error": None, "_notices": [],
        }  # fmt: skip
        return {name: value for name, value in {**self.__dict__, **fresh}.items() if name != "_schemas"}

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as they are at the end of the files: all of their statements are read."""
        files = self._files()
        with tempfile.TemporaryDirectory() as folder:
            schemas = Schemas(LocalStore(Path(folder)), self._options)
            start = self._begin(schemas, files)
            segments = self._plan(schemas, replace(start, schemas=schemas.history.count()), files, None, [])
            last = list(segments)[-1:]
            count = last[0].schemas if last else schemas.history.count()
            found = {table: known for table, known in schemas.history.tables(count).items() if self._captures(table)}
        return {table: shown_schema(definition, self._options) for table, definition in found.items()}

    def reach(self) -> None:
        """Raise SourceError where a pattern of `path` matches no file of this machine."""
        self._files()

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as `schema-files` define them; none without such files. Nothing of the log is read."""
        files = self._files()
        with tempfile.TemporaryDirectory() as folder:
            schemas = Schemas(LocalStore(Path(folder)), self._options)
            self._begin(schemas, files)
            found = schemas.history.tables(schemas.history.count())
        return {table: shown_schema(known, self._options) for table, known in found.items() if self._captures(table)}

    def initial_offset(self) -> Offset:
        """The beginning of the first file; definitions come from `schema-files`."""
        start = self._begin(self._schemas, self._files())
        CapturedPattern(self._context.store, self._options).remember()
        return start.to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """Plan until a batch is full or the files end; never waits. What stops it is raised after all before it."""
        at = MySqlOffset.from_json(start)
        end = self._plan_batch(at, limits)
        return start if end == at else end.to_json()

    def _plan_batch(self, start: MySqlOffset, limits: Limits | None) -> MySqlOffset:
        if start.schemas == 0 and (first := self._schemas.first_entries()):
            return replace(start, schemas=first)
        if self._segments is None:
            fresh = Schemas(self._context.store, self._options)
            self._check_edited(start, fresh)
            files = self._files()
            self._read_files.check(files)
            self._segments = self._plan(fresh, start, files, limits, self._notices)
        self._fill(self._segments, limits)
        batch = self._queue.poll(limits)
        if not batch and self._error is not None:
            raise self._error
        if not batch:
            return start
        end = end_offset(start, batch)
        self._read_files.note(self._files(), start.position.file, end.position.file)
        self._planned = (end, batch)
        return end

    def _check_edited(self, start: MySqlOffset, schemas: Schemas) -> None:
        """Raise SourceError for tables that are taken in now, and whose rows in the part that was read were left out.

        Nothing can be copied here.
        """
        pattern = CapturedPattern(self._context.store, self._options)
        if pattern.unchanged:
            return
        followed = schemas.history.followed(start.schemas)
        wanted = {table for table in schemas.history.tables(start.schemas) if self._captures(table)}
        missed = sorted(str(table) for table in wanted if table not in followed or not pattern.matched(table))
        if missed:
            raise SourceError(
                f"{', '.join(missed[:5])}: matches since the pipeline file was edited, and what was read of the log "
                "before is without it",
                where="source.tables",
                hint="leave it out with tables.exclude, or start over with another --state-dir",
            )
        pattern.note()

    def stop_at_current(self) -> None:
        """Nothing to do: files end by themselves."""

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Cut at transaction ends when the batch is big and was planned by this process; else one split."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        planned = self._planned[1] if self._planned is not None and self._planned[0] == stop else None
        return dump_payloads(splits_of(planned, begin, stop, parallelism))

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """The history's entries between the two offsets."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        return of_captured(self._schemas.events(begin.schemas, stop.schemas), self._captures)

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range, which may span files."""
        from connectors.mysql.rows.metadata import LogMetadata

        part: LogRange = load_payload(split).payload
        rows, metadata = self._schemas.decoder(part.schemas, self._captures, count), LogMetadata(self._context.metadata)
        for buffer in _buffers(self._files(), part.start, part.end):
            yield from in_phase("decode", metadata.blocks(buffer, rows.decode))

    def position_text(self, sequence: int) -> str:
        """Number of the log file and position in it."""
        return sequence_text(sequence)

    def _fill(self, segments: Iterator[Segment], limits: Limits | None) -> None:
        """Read ahead until more waits than one batch holds, the files end or something cannot be followed."""
        while self._error is None and (limits is None or self._queue.bytes <= limits.max_bytes):
            try:
                segment = next(segments, None)
            except SourceError as error:
                self._error = error
                return
            if segment is None:
                return
            self._queue.put(segment)

    def lag(self) -> Lag | None:
        """Only what the statements in the files have given reason to tell."""
        return Lag.with_notices(self._notices) if self._notices else None

    def warm(self) -> None:
        """Load the decoder's kernels; on a machine's first run this compiles them."""
        from connectors.mysql.rows.warm import warm_kernels

        warm_kernels()

    @property
    def _read_files(self) -> ReadFiles:
        return ReadFiles(self._context.store)

    @cached_property
    def _schemas(self) -> Schemas:
        """Kept, so that the history file is read on and not again."""
        return Schemas(self._context.store, self._options)

    def _begin(self, schemas: Schemas, files: Mapping[str, Path]) -> MySqlOffset:
        first = LogPosition(next(iter(files)))
        dialect = _dialect(files[first.file])
        schemas.begin(self._declared(dialect), self._captures, first, dialect)
        return MySqlOffset(first)

    def _declared(self, dialect: DdlDialect) -> StartingDefinitions:
        """The captured tables of `schema-files`."""
        with tempfile.TemporaryDirectory() as folder:
            catalog = Schemas(LocalStore(Path(folder)), self._options).catalog(0, self._captures, dialect, 0)
        for path in _matching(self._options.schema_paths, "schema-files"):
            define_from(path, catalog)
        return StartingDefinitions(tuple(catalog.captured.values()), dict(catalog.databases))

    def _plan(
        self, schemas: Schemas, start: MySqlOffset, files: Mapping[str, Path], limits: Limits | None, notices: list[str]
    ) -> Iterator[Segment]:
        from connectors.mysql.follow.segmenter import Segmenter

        position = start.position
        dialect = _dialect(_file(files, position.file))
        tracker = schemas.tracker(start.schemas, self._captures, dialect, 0, notices)
        segmenter = Segmenter(tracker, self._captures, file=position.file, position=position.position, limits=limits)
        for buffer in _buffers(files, position, None):
            yield from segmenter.feed(buffer)

    def _files(self) -> dict[str, Path]:
        """The files by name, in log order. Raises SourceError when there are none, or not one for each number."""
        found = sorted(_matching(self._options.paths, "path"), key=lambda path: (file_number(path.name), path))
        for path, later in pairwise(found):
            _check_neighbours(path, later)
        return {path.name: path for path in found}


def _matching(patterns: Sequence[str], option: str) -> list[Path]:
    found: list[Path] = []
    for pattern in patterns:
        paths = [Path(path) for path in sorted(glob.glob(pattern)) if not path.endswith(_BESIDE_LOGS)]
        if not paths:
            hint = "check the path; on a cluster the files have to be on every machine, under the same path"
            raise SourceError(f"no file matches {pattern}", where=f"source.{option}", hint=hint)
        found += paths
    return list(dict.fromkeys(found))


def _check_neighbours(path: Path, later: Path) -> None:
    steps = file_number(later.name) - file_number(path.name)
    if steps == 0:
        raise SourceError(
            f"two binlog files have the same number: {path} and {later}",
            where="source.path",
            hint="files of different servers belong to different pipelines",
        )
    if steps > 1:
        raise SourceError(
            f"between {path.name} and {later.name} files are missing, and with them changes",
            where="source.path",
            hint="add them, or leave out the older ones",
        )


def _buffers(files: Mapping[str, Path], start: LogPosition, end: LogPosition | None) -> Iterator[ReceiveBuffer]:
    """All buffers from `start` to `end` (None: to the last file's end)."""
    from connectors.mysql.log.log_file import read_buffers

    names = list(files)
    for name in (start.file, *([end.file] if end is not None else [])):
        _file(files, name)
    last = names.index(end.file) if end is not None else len(names) - 1
    for index in range(names.index(start.file), last + 1):
        begin = start.position if names[index] == start.file else 4
        stop = end.position if end is not None and names[index] == end.file else None
        if stop is None or begin < stop:
            yield from read_buffers(files[names[index]], begin, stop)


def _file(files: Mapping[str, Path], name: str) -> Path:
    if name not in files:
        raise SourceError(f"the file {name} is not there any more", where="source.path", hint="put it back")
    return files[name]


def _dialect(path: Path) -> DdlDialect:
    """How the server that wrote the file reads statements: the version text of its format description."""
    from connectors.mysql.log.log_file import read_buffers

    first = next(read_buffers(path, buffer_bytes=_FIRST_BYTES))
    return DdlDialect.of(first.body(0)[2:52].rstrip(b"\0").decode("latin-1"))
