"""The positions of Debezium's messages in the server's log (`source.file`, `source.pos`), as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from connectors.kafka.formats import convert
from connectors.kafka.formats.scan import Scan, Tree
from connectors.kafka.kernels import INTEGER, STRING, TRUE

POSITIONS = Tree({"source": {"file": None, "pos": None, "server_id": None, "snapshot": None}})
_BITS = 40
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class SourceLogPosition:
    """One position. `log` is the name of the log's files without their number; `server` is 0 when it is not known."""

    log: str
    server: int
    at: int

    def __str__(self) -> str:
        return f"{self.log}.{self.at >> _BITS:06d}:{self.at & ((1 << _BITS) - 1)}"


@dataclass(frozen=True, slots=True)
class LogPositions:
    """The positions of n messages.

    Attributes:
        at: int64[n], the file's number and the position in it, combined to one ascending number; NOWHERE for messages
            without a position.
        logs, servers: the names of logs, and the servers, that occurred.
    """

    at: Any
    logs: frozenset[str]
    servers: frozenset[int]

    def comparable(self, position: SourceLogPosition) -> bool:
        """Whether the positions are in the same server's log."""
        servers = self.servers | ({position.server} if position.server else set())
        return self.logs <= {position.log} and len(servers) <= 1

    def last(self) -> SourceLogPosition | None:
        """The last position; None when there is none, or there are several logs."""
        known = self.at[self.at != NOWHERE]
        if not len(known) or len(self.logs) != 1 or len(self.servers) > 1:
            return None
        return SourceLogPosition(min(self.logs), min(self.servers, default=0), int(known[-1]))


def log_positions_of(scan: Scan) -> LogPositions:
    """The positions of the rows of a scan, whose tree has the names of POSITIONS."""
    files, positions, servers = (scan.cells("source", name) for name in ("file", "pos", "server_id"))
    at = np.full(len(files), NOWHERE, np.int64)
    rows = np.flatnonzero((files.kinds == STRING) & (positions.kinds == INTEGER) & (scan.faults == 0))
    if not len(rows):
        return LogPositions(at, frozenset(), frozenset())
    names = convert.text(files.take(rows)).dictionary_encode()
    logs, numbers = set[str](), list[int]()
    for name in names.dictionary.to_pylist():
        log, _, number = name.rpartition(".")
        # Messages of a snapshot may have an empty name, or only the number.
        named = bool(log) and number.isdigit()
        logs |= {log} if named else set()
        numbers.append(int(number) if named else NOWHERE)
    found = np.array(numbers, np.int64)[names.indices.to_numpy()]
    found_positions = (found << _BITS) + convert.integers(positions.take(rows)).to_numpy()
    at[rows] = np.where(found == NOWHERE, NOWHERE, found_positions)
    server_ids = convert.integers(servers.take(rows[servers.kinds[rows] == INTEGER]))
    return LogPositions(at, frozenset(logs), frozenset(server_ids.unique().to_pylist()) - {None, 0})


def log_position_of(scan: Scan, row: int) -> SourceLogPosition | None:
    """The position of one row of a scan."""
    return log_positions_of(_row(scan, row)).last()


def of_snapshot(scan: Scan, row: int) -> bool:
    """Whether the connector's snapshot wrote the message, so that it describes tables before all changes."""
    cells = scan.cells("source", "snapshot")
    if cells.kinds[row] < STRING:
        return bool(cells.kinds[row] == TRUE)
    return cells.raw(row) not in (b"false", b"incremental")


def _row(scan: Scan, row: int) -> Scan:
    one = slice(row, row + 1)
    return Scan(
        scan.tree, scan.texts, scan.starts[:, one], scan.stops[:, one], scan.kinds[:, one], scan.unknown[one],
        scan.faults[one],
    )  # fmt: skip
