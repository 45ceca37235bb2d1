"""Determines how much of its current transaction another tool has delivered, so that nothing is delivered twice.

Debezium, and Flink CDC, which uses its reader, store the begin of the transaction of the last message, with the number
of events since and of rows of the next event. So an idle tool has stored the position before a transaction that it has
delivered completely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.follow.foreign import DeliveredPart
from connectors.mysql.log.event_bodies import gtid_runs, mariadb_gtid_runs, parse_gtid
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.position_search import whole_log
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import Segment, gtids_after
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.log.stream import OpenStream
from connectors.mysql.log.transaction_filter import begin_of
from connectors.mysql.server.positions import LogPosition

_OLD_IMAGE = int(RowKind.UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction with rows, and how far another tool has delivered it.

    Attributes:
        gtid: empty without one.
        end: where the next one begins.
        gtids: the same as runs, for sets.
        last: end of the last event with delivered rows; None when unknown.
    """

    gtid: str
    end: LogPosition
    gtids: tuple[tuple[object, ...], ...]
    last: int | None


def transaction_at(open_stream: OpenStream, begin: LogPosition, inside: DeliveredPart) -> Transaction | None:
    """Read the transaction that begins there; None if none with rows does. Raises SourceUnavailable."""
    gtid, runs, meant = "", list[tuple[object, ...]](), list[int]()
    number, statements, before, mariadb = -1, 0, -1, False
    for buffer, index in _events(open_stream, begin):
        kind = int(buffer.type[index])
        if kind in events.GTID_TYPES:
            if number >= 0:
                return None  # a statement, or nothing at all
            gtid = str(parse_gtid(buffer, index))
            runs += [*mariadb_gtid_runs(buffer, index, index + 1), *gtid_runs(buffer, index, index + 1)]
            mariadb = kind == events.MARIADB_GTID
            number = int(mariadb)  # its GTID is the begin; MySQL's is followed by a BEGIN, which is number 0
            continue
        if number < 0 or kind == events.MARIADB_ANNOTATE_ROWS:  # `statements` counts what other tools may count
            continue
        if mariadb and kind == events.TABLE_MAP != before:
            statements += 1
        before = kind
        if kind in events.ROWS_TYPES and _is_meant(buffer, index, range(number, number + statements + 1), inside):
            meant.append(int(buffer.end_position[index]))
        if kind == events.XID or (kind == events.QUERY and int(buffer.query_kind[index]) == events.COMMIT):
            end = LogPosition(buffer.file, int(buffer.end_position[index]))
            last = meant[0] if len(meant) == 1 and meant[0] != end.position else None
            return Transaction(gtid, end, tuple(runs), last)
        if kind == events.QUERY and int(buffer.query_kind[index]) != events.BEGIN:
            return None
        number += 1
    return None


def _events(open_stream: OpenStream, begin: LogPosition) -> Iterator[tuple[ReceiveBuffer, int]]:
    for buffer in whole_log(open_stream(begin, True)):
        if buffer.file != begin.file:
            return
        for index in range(len(buffer)):
            if int(buffer.end_position[index]) > begin.position:
                yield buffer, index


def _is_meant(buffer: ReceiveBuffer, index: int, numbers: Container[int], inside: DeliveredPart) -> bool:
    """Return whether it may be the event of the last row.

    A tool that requests the text of statements from MariaDB (Debezium with `include.query`) counts one more event for
    each.
    """
    if inside.begin is not None:
        return begin_of(buffer, index).position == inside.begin
    return inside.events in numbers


@dataclass(frozen=True, slots=True)
class PartlyDelivered:
    """The rows of a transaction by table: those that another tool has delivered, and the missing ones."""

    delivered: Counter[TableId]
    missing: Counter[TableId]


def partly_delivered(blocks: Iterable[ChangeBlock], last: int, inside: DeliveredPart) -> PartlyDelivered:
    """Count rows of captured tables before and after the last delivered one; `last` is its event's sequence."""
    delivered, missing, of_event = Counter[TableId](), Counter[TableId](), 0
    for block in blocks:
        new = block.kinds.to_numpy() != _OLD_IMAGE
        sequences = block.sequence.to_numpy()[new]
        here = int((sequences == last).sum())
        had = min(here, max(0, inside.rows - of_event))
        of_event += here
        delivered[block.table] += int((sequences < last).sum()) + had
        missing[block.table] += int((sequences > last).sum()) + here - had
    return PartlyDelivered(+delivered, +missing)


def after_delivered(
    begin: MySqlOffset,
    inside: DeliveredPart,
    open_stream: OpenStream,
    read: Callable[[MySqlOffset, MySqlOffset], Iterable[ChangeBlock]],
) -> tuple[MySqlOffset, str]:
    """Return where a pipeline continues, and a text about repeated rows.

    It continues after the transaction if all of its rows are delivered, else at its begin. `read` returns the rows
    between two offsets. Raises SourceError when the position is of another server.
    """
    found = transaction_at(open_stream, begin.position, inside)
    name = "" if found is None else found.gtid or f"the one at {begin.position}"
    if found is not None and inside.gtid and found.gtid and found.gtid != inside.gtid:
        raise SourceError(
            f"the message is of the transaction {inside.gtid}, and the server has {found.gtid} there",
            where=str(begin.position),
            hint="point hostname and port at the server that the tool has read from, or give its stored offset",
        )
    if found is None or found.last is None:
        message = "; how much of the transaction there was delivered cannot be told: it comes again, as a whole"
        return begin, message if inside.rows else ""
    end = replace(
        begin,
        position=found.end,
        gtids=gtids_after(begin.gtids, [Segment(found.end.file, found.end.position, gtids=found.gtids)]),
    )
    rest = partly_delivered(read(begin, end), sequence_of(begin.position.file, found.last), inside)
    if not rest.missing:
        return end, f", after its last transaction ({name}), which is delivered"
    again = "" if not rest.delivered else f"; it comes again, as a whole: {_row_counts_text(rest.delivered)}"
    return begin, f"; of the transaction {name} are not delivered: {_row_counts_text(rest.missing)}{again}"


def _row_counts_text(rows: Counter[TableId]) -> str:
    return ", ".join(f"{number:,} rows of {table}" for table, number in sorted(rows.items()))
