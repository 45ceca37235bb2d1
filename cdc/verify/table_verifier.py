"""Compares one sink table with the current rows of its source tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from cdc.block import arrow_schema
from cdc.errors import SourceError
from cdc.pattern import TablePattern
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.sink import Sink, StoredTable
from cdc.source import CurrentTables
from cdc.tables.pauses import PausedTables
from cdc.verify.compare import Compared, Comparison
from cdc.verify.position import Committed
from cdc.verify.recheck import Log, Verdicts
from cdc.verify.report import DifferenceKind, RowReport, TableReport, Verdict
from cdc.verify.rows import Expected, SourceTable, sink_rows
from cdc.verify.tables import Pair, keys_in_source, pairs

if TYPE_CHECKING:
    from cdc.flow.middle import Middle

SHOWN, SHOWN_DEEP = 5, 1000
"""Maximum number of rows shown per table."""
_LONGEST_S = 30.0
"""How long to examine rows that are being written to continually."""
LONGEST = 80
"""Maximum number of characters shown of a value."""
MASKED = "(masked)"


@dataclass(frozen=True)
class VerifySettings:
    """The settings of a comparison.

    Attributes:
        tables: pattern of the source tables to compare; None for all.
        deep: show up to SHOWN_DEEP rows of each table, with the values that differ.
        wait_s: how long to wait for the pipeline to commit what was read in the source; None: WAIT_S while it runs,
            otherwise not at all.
    """

    tables: str | None = None
    deep: bool = False
    wait_s: float | None = None


class TableVerifier:
    """Compares tables, one after another. `engine` computes the hashes (`cdc.verify.hashing.open_engine`)."""

    def __init__(
        self,
        now: CurrentTables,
        sink: Sink,
        middle: Middle,
        committed: Committed,
        settings: VerifySettings,
        engine: duckdb.DuckDBPyConnection,
    ) -> None:
        self._now, self._sink, self._middle = now, sink, middle
        self._committed, self._settings, self._engine = committed, settings, engine
        self._sources: dict[TableId, TableSchema] = {}
        self.copying: dict[TableId, str] = {}
        self.pauses = PausedTables()

    def pairs(self, sinks: Mapping[TableId, TableSchema]) -> Sequence[Pair]:
        """Return the tables to compare. Raises SourceError when there are none."""
        self._sources = dict(self._now.tables())
        pattern = None if self._settings.tables is None else TablePattern(self._settings.tables)
        pauses = self.pauses.paused | self.pauses.resumed
        found = pairs(self._sources, sinks, self._middle.routes, self._middle.rules, self._now.partial, pauses)
        chosen = [
            pair for pair in found if pattern is None or any(pattern.matches(routed.table) for routed in pair.routed)
        ]
        if not chosen:
            raise SourceError("no captured table matches", where=self._settings.tables or "tables")
        return chosen

    def report(self, pair: Pair) -> TableReport:
        """Compare one table; one that the source cannot read is open. Raises retryable SourceErrors, and SinkError."""
        sources = [routed.table for routed in pair.routed]
        names = (str(pair.table), tuple(map(str, sources)))
        if pair.schema is None:
            return TableReport(*names, Verdict.OPEN, note="the pipeline has not reached its creation yet")
        if paused := [str(table) for table in sources if table in self.pauses.paused]:
            return TableReport(*names, Verdict.SKIPPED, note=f"{', '.join(paused)} is paused (`cdc resume` ends that)")
        if resumed := [str(table) for table in sources if table in self.pauses.resumed]:
            return TableReport(
                *names, Verdict.OPEN, note=f"{', '.join(resumed)} was paused, and not re-snapshotted yet"
            )
        if pair.skip_reason:
            return TableReport(*names, Verdict.SKIPPED, note=pair.skip_reason)
        copied = [f"{table} is {self.copying[table]}" for table in sources if table in self.copying]
        if copied:
            return TableReport(*names, Verdict.OPEN, note=f"it is being copied: {', '.join(copied)}")
        stored = self._sink.read_back(pair.table, pair.schema)
        if stored is None:
            return TableReport(*names, Verdict.DIFFERENT, note="the sink has no such table")
        if isinstance(stored, str):
            return TableReport(*names, Verdict.SKIPPED, note=stored)
        try:
            compared = self._comparison(pair, pair.schema, stored)(self._shown_limit)
        except SourceError as error:
            if error.retryable:
                raise
            return TableReport(*names, Verdict.OPEN, note=f"it cannot be read: {error}")
        return self._report(pair, compared, names)

    @property
    def _shown_limit(self) -> int:
        return SHOWN_DEEP if self._settings.deep else SHOWN

    def _comparison(self, pair: Pair, schema: TableSchema, stored: StoredTable) -> Comparison:
        counts: Counter[str] = Counter()
        sources = [routed.table for routed in pair.routed]

        def count(reason: str, number: int) -> None:
            counts[reason] += number

        expected = Expected(
            self._now, tuple(self._feeds(pair, schema, stored)), schema, stored, pair.columns, self._middle.rules,
            self._middle.coercion, count,
        )  # fmt: skip
        log = Log(
            self._now.end,
            lambda end: self._committed.reaches(self._now, end, sources),
            lambda start, end: self._now.covers(start, end, sources),
        )
        return Comparison(
            expected, sink_rows(stored, pair.columns), pair.columns, pair.key, expected.by_key, log,
            RetryPolicy(_LONGEST_S, 0.05, 1.0), self._engine,
        )  # fmt: skip

    def _feeds(self, pair: Pair, schema: TableSchema, stored: StoredTable) -> Iterator[SourceTable]:
        empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
        stored_types = stored.as_stored(empty).schema
        for routed in pair.routed:
            source, keys = self._sources[routed.table], self._now.keys(routed.table)
            matching = keys_in_source(pair, routed, keys, self._middle.rules, source) and all(
                _keeps_key_values(stored_types.field(name).type, arrow_schema(source).field(name).type) for name in keys
            )
            yield SourceTable(routed.table, routed.target, keys if matching else ())

    def _report(self, pair: Pair, compared: Compared, names: tuple[str, tuple[str, ...]]) -> TableReport:
        verdicts = compared.verdicts
        if verdicts is None:
            rows = compared.source_rows, compared.sink_rows
            return TableReport(*names, Verdict.EQUAL, *rows, left_out=pair.left_out)
        found, open_rows = kinds(verdicts, keyed=bool(pair.key)), int(verdicts.open.sum())
        differing = sum(found.values())
        state = Verdict.DIFFERENT if differing else Verdict.OPEN if open_rows or not compared.all else Verdict.EQUAL
        note = ""
        if verdicts.waited:
            note = f"the pipeline has committed {_place(self._committed.offset())} only: run it until it has caught up"
        elif open_rows:
            note = "some rows are being written to continually"
        elif state is Verdict.OPEN:
            note = "more rows were being written to than can be examined: run it again"
        shown = shown_rows(
            verdicts, pair.columns, pair.key, pair.masked, most=self._shown_limit, values=self._settings.deep
        )  # fmt: skip
        return TableReport(
            *names, state, compared.source_rows, compared.sink_rows, found[DifferenceKind.MISSING],
            found[DifferenceKind.EXTRA], found[DifferenceKind.OTHER], open_rows, compared.all,
            tuple(shown), pair.left_out, note,
        )  # fmt: skip


def _keeps_key_values(stored: pa.DataType, source: pa.DataType) -> bool:
    """Whether a key has the same values in the sink as in the source."""
    return bool(stored == source or (pa.types.is_integer(stored) and pa.types.is_integer(source)))


def _place(offset: dict[str, object]) -> str:
    """Format an offset for people: its first members."""
    return ", ".join(f"{name} {value}" for name, value in list(offset.items())[:3] if name != "version")


def kinds(verdicts: Verdicts, *, keyed: bool) -> dict[DifferenceKind, int]:
    """Count differing rows by kind. Without a key, a row counts as often as one side has it more than the other."""
    in_source, in_sink = verdicts.source.counts, verdicts.sink.counts
    different = verdicts.different
    more = np.abs(in_source - in_sink)
    missing = different & ((in_sink == 0) if keyed else (in_source > in_sink))
    extra = different & ((in_source == 0) if keyed else (in_sink > in_source))
    other = different & ~missing & ~extra
    return {
        DifferenceKind.MISSING: int(more[missing].sum()),
        DifferenceKind.EXTRA: int(more[extra].sum()),
        DifferenceKind.OTHER: int(np.maximum(more[other], 1).sum()),
    }


def shown_rows(
    verdicts: Verdicts, columns: Sequence[str], key: Sequence[str], masked: Collection[str], *, most: int, values: bool
) -> Iterator[RowReport]:
    """Yield the first differing rows. `values`: with the values of both sides, except those of `masked` columns."""
    for suspect in np.flatnonzero(verdicts.different)[:most].tolist():
        in_source, in_sink = verdicts.source.shown.get(suspect), verdicts.sink.shown.get(suspect)
        row = in_source if in_source is not None else in_sink
        if row is None:  # its row was not kept
            continue
        names = key or (columns if values else ())
        texts = {name: _text(row.column(name)[0], name in masked) for name in names}
        found: dict[str, tuple[str, str]] = {}
        if in_source is not None and in_sink is not None:
            unequal = _unequal(in_source, in_sink)
            found = {name: _both(in_source, in_sink, name, name in masked, values) for name in unequal}
        yield RowReport(_kind(verdicts, suspect, keyed=bool(key)), texts, found)


def _kind(verdicts: Verdicts, suspect: int, *, keyed: bool) -> DifferenceKind:
    """The kind of one difference whose row is shown."""
    source, sink = verdicts.source, verdicts.sink
    if not keyed:
        more_in_source = source.counts[suspect] > sink.counts[suspect]
        return DifferenceKind.MISSING if more_in_source else DifferenceKind.EXTRA
    if suspect not in sink.shown:
        return DifferenceKind.MISSING
    return DifferenceKind.OTHER if suspect in source.shown else DifferenceKind.EXTRA


def _unequal(in_source: pa.RecordBatch, in_sink: pa.RecordBatch) -> list[str]:
    return [name for name in in_source.schema.names if not in_source.column(name)[0].equals(in_sink.column(name)[0])]


def _both(in_source: pa.RecordBatch, in_sink: pa.RecordBatch, name: str, masked: bool, values: bool) -> tuple[str, str]:
    if not values:
        return "", ""
    return _text(in_source.column(name)[0], masked), _text(in_sink.column(name)[0], masked)


def _text(value: Any, masked: bool) -> str:
    if not value.is_valid:
        return "NULL"
    if masked:
        return MASKED
    plain = value.as_py() if not pa.types.is_temporal(value.type) else value.cast(pa.string()).as_py()
    text = plain.hex() if isinstance(plain, bytes) else str(plain)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    plainly = text == text.strip() and text not in ("", "NULL", MASKED)
    return text if plainly else f"'{text}'"  # quotes avoid ambiguity
