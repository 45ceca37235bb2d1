"""Converts rows of a SELECT to change blocks, with the same Arrow columns that the log's decoder creates.

Text arrives in the column's own character set (the session has `character_set_results = NULL`) and is converted by the
decoder's code, so invalid characters are refused or replaced in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cdc.block import ChangeBlock
from cdc.errors import CdcError, CorruptLog, SourceError, UnsupportedChange
from cdc.source import Count
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.arena import Arena
from connectors.mysql.rows.row_faults import invalid_vector
from connectors.mysql.snapshot.read.kernels import protocol, result_rows
from connectors.mysql.snapshot.read.result_plan import result_plan
from connectors.mysql.snapshot.read.result_stream import ResultColumn, RowPackets
from connectors.mysql.table import MySqlTable
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules

BLOCK_ROWS: Final = 1 << 16
BLOCK_BYTES: Final = 8 << 20
"""Maximum rows of a block, and approximate maximum bytes of the result in it."""
MOST_ROWS: Final = (1 << 31) - 1
"""Maximum rows of one chunk: their numbers are int32."""
_SAMPLE_ROWS: Final = 1024


@dataclass(frozen=True, slots=True)
class Stamp:
    """Values shared by the rows of a chunk: their sequence, the number of the first one, their time (ms since 1970)."""

    sequence: int
    first_row: int
    timestamp_ms: int


class RowReader:
    """Converts packets to blocks of at most BLOCK_ROWS rows. Executor; not thread-safe.

    Args:
        columns: of the result of `select_from`.
        stamp: see there.
        count: receives values changed by the rules, as from the decoder.
        where: the table, for errors.

    Attributes:
        schema: the table's, by the rules.
        rows: rows returned.

    Raises SchemaUnknown when the result has other columns than the table.
    """

    def __init__(
        self,
        table: MySqlTable,
        columns: Sequence[ResultColumn],
        stamp: Stamp,
        count: Count,
        rules: ValueRules = DEFAULT_RULES,
        *,
        where: str,
    ) -> None:
        self._plan = result_plan(table, columns, where=where, tinyint1_as_boolean=rules.tinyint1_as_boolean)
        self.schema = self._plan.schema
        self._stamp, self._count, self._strict, self._where = stamp, count, rules.strict_dates, where
        self._replaced = count if rules.replaces_text else None
        self.rows = 0
        self._arena: Arena | None = None
        self._capacity = 0
        self._averages: Any = None
        self._row_bytes = 1.0
        self._bytes = 0
        self._state = np.zeros(protocol.ROW_STATE, np.int64)

    def blocks(self, packets: Iterable[RowPackets]) -> Iterator[ChangeBlock]:
        """Yield all rows of a result. Raises as `read`, and as the packets."""
        for some in packets:
            yield from self.read(some)
        yield from self.finish()

    def read(self, packets: RowPackets) -> Iterator[ChangeBlock]:
        """Yield the blocks that became full. Raises CorruptLog, UnsupportedChange or SourceError."""
        done = 0
        while done < packets.count:
            arena = self._arena or self._open(packets, done)
            before = int(self._state[protocol.ROWS])
            code = self._fill(arena, packets, done)
            row = int(self._state[protocol.ROWS])
            if row > before:
                self._bytes += int(packets.ends[done + row - before - 1]) - int(packets.starts[done])
            done += row - before
            if code not in (protocol.DONE, protocol.FULL):
                raise self._fault(code, packets)
            if code == protocol.FULL and row == 0:
                self._open(packets, done, exact=True)
            elif code == protocol.FULL or self._bytes >= BLOCK_BYTES:
                yield self._close(arena, row)

    def finish(self) -> Iterator[ChangeBlock]:
        """Yield the last block, if rows are left."""
        if self._arena is not None and self._state[protocol.ROWS]:
            yield self._close(self._arena, int(self._state[protocol.ROWS]))

    def _open(self, packets: RowPackets, done: int, *, exact: bool = False) -> Arena:
        """Open an arena for the next rows: sized by the rows so far, or for the worst case of the next ones."""
        if self._averages is None or exact:
            rows = 1 if exact else min(_SAMPLE_ROWS, packets.count - done)
            bound = int(packets.ends[done + rows - 1]) - int(packets.starts[done])
            averages = np.full(len(self._plan.numbers), -1.0)
        else:
            rows = min(BLOCK_ROWS, int(BLOCK_BYTES / self._row_bytes * 1.05) + 64)
            bound, averages = 2 * BLOCK_BYTES, self._averages
        self._capacity, self._bytes = rows, 0
        self._state[protocol.ROWS] = 0
        self._arena = Arena(self._plan, rows, bound, averages)
        return self._arena

    def _fill(self, arena: Arena, packets: RowPackets, done: int) -> int:
        """Read rows from `done` on into the arena; returns the kernel's code."""
        number = self._stamp.first_row + self.rows
        if number > MOST_ROWS - self._capacity:
            hint = "make chunks smaller: scan.incremental.snapshot.chunk.size"
            raise SourceError(f"a chunk has more than {MOST_ROWS} rows", where=self._where, hint=hint)
        code = result_rows.read_rows(
            address(packets.buffer), address(packets.starts), address(packets.ends), done, packets.count,
            len(self._plan.numbers), address(arena.layout), address(arena.head), self._capacity, self._stamp.sequence,
            number, self._stamp.timestamp_ms, self._strict, address(self._state),
        )  # fmt: skip
        return int(code)

    def _close(self, arena: Arena, rows: int) -> ChangeBlock:
        """Return the arena's rows as a block."""
        for index in np.flatnonzero(arena.layout["invalid"]).tolist():
            name = f"invalid-date-to-null {self._plan.table.id}.{self._plan.table.columns[index].name}"
            self._count(name, int(arena.layout["invalid"][index]))
        seen = arena.averages(rows)
        self._averages = seen if self._averages is None else np.maximum(seen, self._averages * 0.9)
        self._row_bytes = max(self._bytes / rows, 1.0)
        block = arena.block(rows, True, None, self._where, self._replaced)
        self.rows += rows
        self._arena = None
        return block

    def _fault(self, code: int, packets: RowPackets) -> CdcError:
        column, at = int(self._state[protocol.FAULT_COLUMN]), int(self._state[protocol.FAULT_AT])
        name = self._plan.table.columns[column].name if column >= 0 else ""
        if code == protocol.INVALID_DATE:
            text = date_text(packets.buffer[at : at + 12].tobytes())
            hint = "correct it, or allow invalid dates as NULL"
            return UnsupportedChange(f"column {name} holds {text}, which is not a date", where=self._where, hint=hint)
        if code == protocol.ODD_VECTOR:
            return invalid_vector(name, self._where)
        place_of = f" in column {name}" if name else ""
        return CorruptLog(f"a row of the server's answer has inconsistent lengths{place_of}", where=self._where)


def date_text(data: bytes) -> str:
    """Format, as MySQL does, the date or moment that begins with its length at the start of `data`."""
    size = data[0]
    parts = data[1 : 1 + size].ljust(11, b"\0")
    day = f"{int.from_bytes(parts[:2], 'little'):04}-{parts[2]:02}-{parts[3]:02}"
    return day if size == 4 else f"{day} {parts[4]:02}:{parts[5]:02}:{parts[6]:02}"
