"""Where the segmenter cuts the log: at transaction ends, before changes of captured tables, within the limits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from binlog_builder import Event
from fake_stream import FakeServer, FakeStream
from log_script import (
    BEGIN,
    COMMIT,
    SOURCE,
    STANDALONE,
    XID,
    chunk,
    insert,
    mariadb,
    pieces,
    rows,
    seen,
    sql,
    table_map,
)  # fmt: skip
from together import together

from cdc.errors import CorruptLog, UnsupportedChange
from cdc.schema import TableId
from cdc.source import Limits
from connectors.mysql import events
from connectors.mysql.follow.redefined import changed_between
from connectors.mysql.follow.segmenter import SEGMENT_BYTES, Segmenter
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import Segment
from connectors.mysql.log.stream import EndOfLog
from connectors.mysql.server.positions import LogPosition
from connectors.shared.ddl.dialect import DdlDialect

T, U, OTHER = TableId("shop", "t"), TableId("shop", "u"), TableId("else", "x")
FILE = "binlog.000001"


class Tracker:
    """`ALTER shop.t` changes shop.t; any other ALTER is remembered and changes nothing of ours; REFUSED is refused."""

    def __init__(self, *, copies: bool = False) -> None:
        self.entries = 0
        self.statements: list[str] = []
        self._copies = copies
        self.not_told: set[TableId] = set()
        self.looked_at: list[TableId] = []

    def statement(self, chunk: ReceiveBuffer, index: int, gtid: str) -> frozenset[TableId]:
        text = parse_query(chunk, index).sql
        self.statements.append(text)
        if text.startswith("REFUSED"):
            raise UnsupportedChange("refused", where=chunk.where(index))
        verb, _, names = text.partition(" ")
        if verb not in ("ALTER", "CREATE"):
            return frozenset()
        self.entries += 1
        return frozenset(filter(wanted, (TableId.parse(name) for name in names.split("(")[0].split(","))))

    def table(self, chunk: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        self.looked_at.append(table)
        return frozenset()

    def uncertain(self, chunk: ReceiveBuffer, index: int, tables: Collection[TableId], reason: str) -> bool:
        assert "rolled back" in reason
        self.not_told |= set(tables)
        self.entries += self._copies
        return self._copies


def wanted(table: TableId) -> bool:
    return table.database == "shop"


def plan(chunks: Iterable[ReceiveBuffer], *, tracker: Tracker | None = None, **limits: Any) -> list[Segment]:
    found: list[Segment] = []
    collect(Segmenter(tracker or Tracker(), wanted, file=FILE, position=4, **limits), chunks, found)
    return found


def collect(segmenter: Segmenter, chunks: Iterable[ReceiveBuffer], into: list[Segment]) -> None:
    """Feed all chunks; what comes before an error is in the list then."""
    for part in chunks:
        for segment in segmenter.feed(part):
            into.append(segment)


def planned(*script: Event, **options: Any) -> list[Segment]:
    """The plan of one chunk, checked to be the plan of the same log in chunks of one event, pieces joined."""
    whole = chunk(script)
    found = plan([whole], **options)
    assert merged(plan(pieces(whole), **options)) == merged(found)
    return found


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbours joined where nothing forces a cut between them: how the log was chunked does not show."""
    out: list[Segment] = []
    for segment in segments:
        if out and not segment.changed:
            segment = out.pop().merge_with(segment)
        out.append(segment)
    return [replace(segment, gtids=(_set(segment.gtids),)) for segment in out]


def _set(gtids: Sequence[Any]) -> str:
    mariadb = isinstance(gtids[0][0], int)
    return str(MariaDbGtid().add_all(gtids) if mariadb else GtidSet().add_all(gtids))


def ends(script: Sequence[Event], *indexes: int) -> list[int]:
    """Positions after these events of the script."""
    return [int(chunk(script).end_position[index]) for index in indexes]


def test_transactions_make_a_segment_with_tables_bytes_and_gtids() -> None:
    script = [*insert(1, "shop.t"), *insert(2, "shop.u", id_=2), *insert(3, "else.x", id_=3)]
    (found,) = planned(*script)
    assert (found.file, found.position) == (FILE, ends(script, -1)[0])
    assert found.tables == {T, U}
    assert found.changed == frozenset()
    assert found.gtids == ((str(UUID(bytes=SOURCE)), 1, 3),)
    assert found.bytes == found.position - 4


def test_an_unfinished_transaction_belongs_to_no_segment() -> None:
    script = [*insert(1, "shop.t"), seen(2), BEGIN, table_map(2, "shop.u"), rows(2)]
    (found,) = planned(*script)
    assert found.position == ends(script, 4)[0]
    assert found.tables == {T}
    assert found.gtids[0][1:] == (1, 1)


def test_a_transaction_over_many_chunks_is_one_segment() -> None:
    script = [seen(1), BEGIN, table_map(1, "shop.t"), *(rows(1, 900) for _ in range(5)), XID]
    (found,) = plan(pieces(chunk(script)))
    assert found.position == ends(script, -1)[0]
    assert found.bytes == found.position - 4
    assert found.tables == {T}


def test_a_change_of_a_captured_table_begins_a_segment() -> None:
    script = [*insert(1, "shop.t"), seen(2), sql("ALTER shop.t"), *insert(3, "shop.t", id_=2)]
    before, after = planned(*script)
    assert before.position == ends(script, 4)[0]  # before the GTID event of the statement
    assert (before.changed, before.schemas) == (frozenset(), 0)
    assert (after.changed, after.tables, after.schemas) == ({T}, {T}, 1)


def test_changes_that_follow_each_other_each_begin_one() -> None:
    script = [seen(1), sql("CREATE shop.t"), seen(2), sql("ALTER shop.t,shop.u"), *insert(3, "shop.t")]
    found = planned(*script)
    assert [segment.changed for segment in found] == [{T}, {T, U}]
    assert [segment.schemas for segment in found] == [1, 2]


def test_statements_about_other_tables_do_not_cut() -> None:
    (found,) = planned(*insert(1, "shop.t"), seen(2), sql("ALTER else.x"), *insert(3, "shop.t"))
    assert found.schemas == 1


def test_a_piece_counts_only_the_history_up_to_its_own_end() -> None:
    # A restart after the first piece reads the statement again, so it must not be in the history already.
    size = SEGMENT_BYTES * 2 // 3
    script = [*insert(1, "shop.t", size=size), seen(2), sql("ALTER else.x"), *insert(3, "shop.t", size=size)]
    script = [*script, *insert(4, "shop.t"), seen(5), sql("ALTER else.x")]
    found = plan([chunk(script)], limits=Limits(size + 1000, 1 << 40))
    assert [(segment.position, segment.schemas) for segment in found] == list(
        zip(ends(script, 6, 18), (1, 2), strict=True)
    )
    found = plan([chunk(script)], limits=Limits(1, 1))
    assert [segment.schemas for segment in found] == [0, 1, 1, 1, 2]


def test_bulk_is_cut_into_pieces() -> None:
    script = list(itertools.chain.from_iterable(insert(n, "shop.t", size=50_000) for n in range(1, 41)))
    found = planned(*script)
    assert len(found) > 4
    assert max(segment.bytes for segment in found) <= SEGMENT_BYTES
    assert sum(segment.bytes for segment in found) == found[-1].position - 4


@pytest.mark.parametrize(("limits", "most"), [(Limits(600, 1 << 40), 600), (Limits(1, 1), 1)])
def test_segments_keep_to_the_limits_of_a_batch(limits: Limits, most: int) -> None:
    script = list(itertools.chain.from_iterable(insert(n, "shop.t") for n in range(1, 21)))
    found = planned(*script, limits=limits)
    transactions = [segment.gtids[0][2] - segment.gtids[0][1] + 1 for segment in found]
    assert sum(transactions) == 20
    assert all(segment.bytes <= most or one == 1 for segment, one in zip(found, transactions, strict=True))
    assert set(transactions[1:-1]) == {2 if most == 600 else 1}


def test_row_limits_use_an_estimate_of_the_rows() -> None:
    script = [*insert(1, "shop.t", size=10_000), *insert(2, "shop.t", size=10_000), *insert(3, "shop.t", size=100)]
    found = planned(*script, limits=Limits(1 << 40, 110))
    assert [segment.rows for segment in found] == [100, 101]


def test_a_transaction_beyond_the_limits_stays_whole() -> None:
    script = [*insert(1, "shop.t", size=5000), *insert(2, "shop.t")]
    found = planned(*script, limits=Limits(100, 1))
    assert [segment.position for segment in found] == ends(script, 4, 9)


def test_create_select_of_mysql_is_one_transaction() -> None:
    create = "CREATE shop.u(id INT) START TRANSACTION"
    script = [*insert(1, "shop.t"), seen(2), BEGIN, sql(create), table_map(9, "shop.u"), rows(9), XID]
    before, created = planned(*script)
    assert before.position == ends(script, 4)[0]
    assert (created.changed, created.tables, created.position) == ({U}, {U}, ends(script, -1)[0])


def test_create_select_of_mariadb_is_one_transaction() -> None:
    # No BEGIN: the GTID event opens the transaction, unless it says that its statement stands alone.
    annotate = (events.MARIADB_ANNOTATE_ROWS, b"CREATE")
    script = [mariadb(1), table_map(1, "shop.t"), rows(1), XID]
    script += [mariadb(2), sql("CREATE shop.u"), annotate, table_map(9, "shop.u"), rows(9), XID]
    script += [mariadb(3, STANDALONE), sql("ALTER shop.t")]
    before, created, altered = planned(*script)
    assert before.position == ends(script, 3)[0]
    assert (created.changed, created.tables, created.position) == ({U}, {U}, ends(script, 9)[0])
    assert (altered.changed, altered.gtids) == ({T}, ((0, 1, 3),))


def test_the_end_of_the_log_is_behind_a_checkpoint_of_mariadb() -> None:
    """The server notes it after a commit, whenever it likes: snapshots that stand there wait for no other commit."""
    checkpoint: Event = (events.MARIADB_BINLOG_CHECKPOINT, bytes(4))
    script = [mariadb(1), table_map(1, "shop.t"), rows(1), XID, checkpoint]
    commit, end = planned(*script)
    assert (commit.position, commit.tables) == (ends(script, 3)[0], {T})
    assert (end.position, end.tables, end.rows, end.gtids) == (ends(script, 4)[0], frozenset(), 0, ())


@pytest.mark.parametrize("cut", [pieces, lambda whole: [whole]])
def test_the_end_of_the_log_is_behind_the_head_of_a_file(cut: Any) -> None:
    """Where nothing is written after it, as after FLUSH LOGS or a restart: snapshots that stand there are done."""
    before, head = (
        chunk(insert(1, "shop.t")),
        chunk([(events.STOP, b""), (events.PREVIOUS_GTIDS, bytes(8))], "binlog.000002"),
    )
    found = plan([before, *cut(head)])
    assert (found[-1].file, found[-1].position) == ("binlog.000002", int(head.end_position[-1]))


@together("cut", [pieces, lambda whole: [whole]])
@together("begin", [seen(2), mariadb(2, STANDALONE)])
def test_the_end_of_the_log_is_behind_a_statement_that_changes_nothing(begin: Event, cut: Any) -> None:
    for text in ("FLUSH TABLES", "/* c */ GRANT SELECT ON *.* TO u", "ANALYZE TABLE t"):
        whole = chunk([begin, sql(text)])
        assert [each.position for each in plan(cut(whole))] == [int(whole.end_position[-1])]
    assert not plan(cut(chunk([*XA[:2], sql("SAVEPOINT `a`")])))


def test_an_alter_in_two_phases_of_mariadb_counts_when_it_ends() -> None:
    start, commit, back = (b"\2", b"\4" + bytes(8), b"\x08" + bytes(8))
    script = [mariadb(1, STANDALONE, start), sql("ALTER shop.t"), mariadb(2), table_map(1, "shop.u"), rows(1), XID]
    script += [mariadb(3, STANDALONE, commit), sql("ALTER shop.t")]
    script += [mariadb(4, STANDALONE, start), sql("ALTER shop.u"), mariadb(5, STANDALONE, back), sql("ALTER shop.u")]
    script += [mariadb(6, STANDALONE | 2, bytes(8) + start), sql("ALTER shop.u")]
    found = planned(*script)
    assert [(segment.tables, segment.changed) for segment in found] == [({U}, set()), (set(), {T})]
    tracker = Tracker()
    plan(pieces(chunk(script)), tracker=tracker)
    assert tracker.statements == ["ALTER shop.t"]


def test_a_statement_inside_a_transaction_does_not_end_it() -> None:
    script = [seen(1), BEGIN, sql("INSERT INTO else.x VALUES (1)"), table_map(1, "shop.t"), rows(1), XID]
    (found,) = planned(*script)
    assert found.position == ends(script, -1)[0]
    script = [mariadb(1), sql("INSERT INTO else.x VALUES (1)"), table_map(1, "shop.t"), rows(1), COMMIT]
    (found,) = planned(*script)
    assert found.position == ends(script, -1)[0]


def test_what_came_before_a_refused_statement_is_delivered() -> None:
    script = [*insert(1, "shop.t"), *insert(2, "shop.u", id_=2), seen(3), sql("REFUSED"), *insert(4, "shop.t")]
    for chunks in ([chunk(script)], pieces(chunk(script))):
        found: list[Segment] = []
        segmenter = Segmenter(Tracker(), wanted, file=FILE, position=4)
        with pytest.raises(UnsupportedChange, match="refused"):
            collect(segmenter, chunks, found)
        assert found[-1].position == ends(script, 9)[0]


XA = [seen(2), sql("XA START X'78',X'',1"), table_map(1, "shop.t"), rows(1), sql("XA END X'78',X'',1")]
PREPARE: Event = (events.XA_PREPARE, b"\0" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4) + b"x")
ONE_PHASE: Event = (events.XA_PREPARE, b"\1" + PREPARE[1][1:])


def test_an_xa_transaction_is_delivered_when_it_is_prepared() -> None:
    script = [*XA, PREPARE, seen(3), sql("XA COMMIT X'78',X'',1"), *insert(4, "shop.u", id_=2)]
    found = planned(*script, limits=Limits(1, 1))
    assert [segment.position for segment in found] == ends(script, 5, 7, 12)
    assert [segment.tables for segment in found] == [{T}, set(), {U}]
    (segment,) = planned(*XA, ONE_PHASE)
    assert segment.tables == {T}


def test_a_prepared_xa_transaction_of_ours_that_is_rolled_back_is_refused() -> None:
    script = [*XA, PREPARE, seen(3), sql("XA ROLLBACK X'78',X'',1")]
    for chunks in ([chunk(script)], pieces(chunk(script))):
        with pytest.raises(UnsupportedChange, match="XA transaction was rolled back"):
            plan(chunks)
    with pytest.raises(UnsupportedChange, match="XA transaction was rolled back"):  # it was prepared before the start
        plan([chunk([seen(3), sql("XA ROLLBACK X'78',X'',1")])])


@pytest.mark.parametrize(
    "script",
    [
        [*XA, PREPARE, seen(3), sql("XA ROLLBACK X'78',X'',1")],
        [*insert(1, "shop.u", id_=2), seen(2), BEGIN, table_map(1, "shop.t"), rows(1), sql("ROLLBACK")],
    ],
    ids=["xa", "mixed engines"],
)
def test_tables_whose_rows_were_rolled_back_are_to_be_copied(script: list[Event]) -> None:
    for chunks in ([chunk(script)], pieces(chunk(script))):
        tracker = Tracker(copies=True)
        found = plan(chunks, tracker=tracker)
        assert tracker.not_told == {T}
        assert found[-1].schemas == 1
        assert found[-1].position == ends(script, len(script) - 1)[0]


def test_a_prepared_xa_transaction_of_others_may_be_rolled_back() -> None:
    theirs = [seen(2), sql("XA START X'78',X'',1"), table_map(1, "else.x"), rows(1), sql("XA END X'78',X'',1")]
    (found,) = planned(*theirs, PREPARE, seen(3), sql("XA ROLLBACK X'78',X'',1"))
    assert found.tables == frozenset()


def test_rows_that_were_rolled_back_are_refused() -> None:
    for rollback in ("ROLLBACK", "ROLLBACK TO `s`"):
        script = [*insert(1, "shop.u", id_=2), seen(2), BEGIN, table_map(1, "shop.t"), rows(1), sql(rollback)]
        for chunks in ([chunk(script)], pieces(chunk(script))):
            with pytest.raises(UnsupportedChange, match="rolled back"):
                plan(chunks)
        script = [mariadb(1), table_map(1, "shop.t"), rows(1), sql(rollback)]
        for chunks in ([chunk(script)], pieces(chunk(script))):
            with pytest.raises(UnsupportedChange, match="rolled back"):
                plan(chunks)


def test_a_rollback_without_rows_of_ours_is_fine() -> None:
    others = [table_map(3, "else.x"), rows(3)]
    script = [*insert(1, "shop.t"), seen(2), BEGIN, *others, sql("ROLLBACK"), *insert(3, "shop.t")]
    (found,) = planned(*script)
    assert found.position == ends(script, -1)[0]
    script = [*insert(1, "shop.t"), seen(2), BEGIN, *others, sql("ROLLBACK TO `s`"), table_map(1, "shop.t"), rows(1)]
    (found,) = planned(*script)  # the transaction goes on after it
    assert found.position == ends(script, 4)[0]


def test_table_ids_mean_other_tables_in_another_file() -> None:
    tracker = Tracker()
    first = chunk([*insert(1, "shop.t", id_=7), (events.ROTATE, (4).to_bytes(8, "little") + b"binlog.000002")])
    second = chunk([seen(2), BEGIN, table_map(7, "else.x"), rows(7), XID], "binlog.000002")
    third = chunk([seen(3), BEGIN, table_map(7, "shop.u"), rows(7), XID], "binlog.000003")
    found = plan([first, second, third], tracker=tracker)
    assert [(segment.file, segment.tables) for segment in found] == [
        ("binlog.000001", {T}), ("binlog.000002", set()), ("binlog.000003", {U}),
    ]  # fmt: skip
    assert all(segment.bytes > 0 for segment in found)


@pytest.mark.parametrize("cut", [pieces, lambda whole: [whole]])
def test_an_id_that_goes_on_behind_a_statement_about_its_table_is_looked_at_again(cut: Any) -> None:
    tracker = Tracker()
    script = [*insert(1, "shop.t"), *insert(2, "shop.u", id_=2), seen(3), sql("ALTER shop.t"), *insert(4, "shop.t")]
    script += [*insert(5, "shop.u", id_=2), seen(6), sql("ALTER else.x"), *insert(7, "shop.t"), *insert(8, "shop.t")]
    plan(cut(chunk(script)), tracker=tracker)
    assert tracker.looked_at == [T, U, T]


def test_a_transaction_that_a_crash_of_the_server_cut_off_is_refused() -> None:
    first = chunk([*insert(1, "shop.t"), seen(2), BEGIN, table_map(1, "shop.t"), rows(1)])
    second = chunk(insert(3, "shop.t"), "binlog.000002")
    with pytest.raises(UnsupportedChange, match=r"binlog.000001 ends inside a transaction"):
        plan([first, second])
    theirs = chunk([*insert(1, "shop.t"), seen(2), BEGIN, table_map(3, "else.x"), rows(3)])
    created = chunk([seen(3), sql("CREATE shop.u")], "binlog.000002")
    assert [segment.changed for segment in plan([theirs, created])] == [set(), {U}]


def test_events_of_one_payload_share_a_position() -> None:
    whole = chunk([*insert(1, "shop.t"), *insert(2, "shop.u", id_=2)])
    whole.end_position[1:5] = whole.end_position[4]  # as `expand` gives BEGIN .. XID of a TRANSACTION_PAYLOAD
    found = plan(pieces(whole, [3, 6]))
    assert [segment.position for segment in merged(found)] == [int(whole.end_position[-1])]
    assert sum(segment.bytes for segment in found) == int(whole.end_position[-1]) - 4


@together("kind", [events.TABLE_MAP, events.MARIADB_GTID, events.XA_PREPARE])
def test_events_too_short_to_be_read_are_corruption(kind: int) -> None:
    broken = chunk([BEGIN, (events.XA_PREPARE, bytes(13)), XID])
    broken.type[1] = kind
    broken.end[1] = broken.start[1] + 22
    with pytest.raises(CorruptLog, match="too short"):
        plan([broken])


@together("begin", [rows(1), table_map(1, "else.x"), (events.ROWS_QUERY, b"")])
def test_a_start_inside_a_transaction_is_refused(begin: Event) -> None:
    with pytest.raises(UnsupportedChange, match="inside a transaction") as caught:
        planned((events.PREVIOUS_GTIDS, bytes(8)), begin, rows(1), XID, *insert(1, "shop.t"))
    assert caught.value.hint == "start from the beginning of a transaction"


def test_redefined_tables_are_found_from_a_place_inside_a_transaction_on() -> None:
    info: Any = SimpleNamespace(dialect=DdlDialect(), lower_case_table_names=0)
    script = [table_map(1, "shop.t"), rows(1), XID, seen(2), sql("ALTER TABLE shop.u ADD COLUMN x INT")]
    log: Any = FakeServer(FakeStream([chunk(script)], then=EndOfLog))
    start, end = LogPosition(FILE, 4), LogPosition(FILE, ends(script, -1)[0])
    assert changed_between(log.open, start, end, wanted, (T, U), info) == {U}


def test_any_chunking_of_a_random_log_gives_the_same_transactions() -> None:
    chance = random.Random(7)
    for _ in range(30):
        script: list[Event] = []
        for number in range(1, 15):
            table, id_ = chance.choice([("shop.t", 1), ("shop.u", 2), ("else.x", 3)])
            if chance.random() < 0.3:
                script += [seen(number), sql(f"ALTER {table}")]
            else:
                script += insert(number, table, size=chance.randrange(500), id_=id_)
        whole = chunk(script)
        cuts = sorted(chance.sample(range(1, len(whole)), 6))
        limits = Limits(chance.choice([1, 400, 1 << 30]), chance.choice([1, 20, 1 << 30]))
        assert merged(plan(pieces(whole, cuts), limits=limits)) == merged(plan([whole]))
        for segment in plan(pieces(whole, cuts), limits=limits):
            assert segment.gtids, "whole transactions only"
