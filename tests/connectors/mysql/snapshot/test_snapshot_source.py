"""The source copies tables and follows them, through the contract alone: batches read in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from servers import source_of

from cdc import events as on
from cdc.errors import EngineError, SourceError, UnsupportedChange
from cdc.offsets import numbered
from cdc.schema import TableId
from cdc.source import Context, Limits, Offset, Order, Snapshots
from cdc.state.store import LocalStore
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSink, MemoryRun, run_in_memory
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql

LIMITS = Limits(1 << 26, 400)


class Shop:
    """A database and a pipeline from it into a list."""

    def __init__(self, server: MySqlServer, folder: Path) -> None:
        self.server, self.folder, self.sink = server, folder, ListSink()
        self.database = server.new_database("copy")
        self.options: dict[str, Any] = {"scan.incremental.snapshot.chunk.size": 100}
        self.offset: Offset | None = None
        self.batches = 0

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def source(self) -> MySqlSource:
        fields = source_of(self.server, rf"{self.database}.\.*", **self.options)
        options = MySqlSourceOptions.model_validate(fields)
        return MySqlSource(options, Context("copy-1", LocalStore(self.folder)))

    def catch_up(self, limits: Limits | None = LIMITS, parallelism: int = 3, *, confirms: bool = True) -> MemoryRun:
        source = self.source()
        if not confirms:  # the last batch of a run is confirmed by the run after it
            source.commit = lambda end: None  # type: ignore[method-assign]
        source.stop_at_current()
        run = run_in_memory(
            source, self.sink, limits=limits, parallelism=parallelism, start=self.offset, first_batch=self.batches,
            state=self.folder / "engine",
        )  # fmt: skip
        self.offset, self.batches = run.offset, self.batches + run.batches
        return run

    def repeat(self, start: Offset, end: Offset) -> None:
        """A run that reads a batch which an earlier one has planned, and no other."""
        source, batch = self.source(), self.batches
        state = self.folder / "engine"
        pipeline = LocalPipeline(source, self.sink, state, numbered(start, batch), lambda: self.sink)
        pipeline.batch(numbered(start, batch), numbered(end, batch + 1), 1)
        pipeline.finish(1, end)
        source.commit(end)
        self.offset, self.batches = end, batch + 1

    def plan(self) -> list[dict[str, Any]]:
        lines = (self.folder / "chunks.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines[1:]]

    def table(self, name: str) -> TableId:
        return TableId(self.database, name)

    def differs(self, name: str, columns: str) -> bool:
        source = self.server.execute(f"SELECT {columns} FROM {name}", database=self.database)
        names = columns.split(", ")
        sink = [tuple(row[column] for column in names) for row in self.sink.rows(self.table(name))]
        return sorted(map(repr, source)) != sorted(map(repr, sink))


@pytest.fixture
def shop(any_server: MySqlServer, tmp_path: Path) -> Shop:
    return Shop(any_server, tmp_path)


def numbers(count: int) -> str:
    return ", ".join(f"({number}, 'row {number}')" for number in range(count))


def test_tables_are_copied_and_then_followed(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(1000)}")
    shop.run("CREATE TABLE k (code VARCHAR(20) PRIMARY KEY, id INT)")
    shop.run("INSERT INTO k SELECT name, id FROM t")
    shop.run(
        "CREATE TABLE nothing (id INT PRIMARY KEY)", "CREATE TABLE keyless (a INT)", "INSERT INTO keyless SELECT 7"
    )
    run = shop.catch_up()
    assert run.inserts == 2001
    for name, columns in (("t", "id, name"), ("k", "code, id"), ("nothing", "id"), ("keyless", "a")):
        assert not shop.differs(name, columns)
    shop.run(
        "UPDATE t SET name = 'new' WHERE id < 10", "DELETE FROM t WHERE id > 990", "INSERT INTO nothing VALUES (1)"
    )
    run = shop.catch_up()
    assert (run.inserts, run.updates, run.deletes) == (1, 10, 9)
    assert not shop.differs("t", "id, name")
    assert shop.catch_up().batches == 0


def test_a_snapshot_ends_behind_its_last_chunk_and_is_done_then(shop: Shop) -> None:
    shop.options["scan.startup.mode"] = "snapshot"
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(300)}")
    assert shop.source().bounded
    assert shop.catch_up().inserts == 300
    shop.run("INSERT INTO t VALUES (1000, 'later')")
    assert shop.catch_up().batches == 0
    assert len(shop.sink.rows(shop.table("t"))) == 300


def test_a_table_that_newly_matches_is_copied_while_the_log_goes_on(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(150)}")
    shop.run("CREATE TABLE later (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO later SELECT * FROM t")
    shop.options["tables"] = f"{shop.database}.t"
    shop.catch_up()
    assert shop.sink.tables == {shop.table("t")}
    shop.run("UPDATE later SET name = 'before' WHERE id < 5", "INSERT INTO t VALUES (500, 'x')")
    shop.run("CREATE TABLE newest (id INT PRIMARY KEY)", "INSERT INTO newest VALUES (1)")
    shop.options["tables"] = rf"{shop.database}.\.*"
    run = shop.catch_up()
    assert (run.inserts, run.updates) == (152, 0)
    for name, columns in (("t", "id, name"), ("later", "id, name"), ("newest", "id")):
        assert not shop.differs(name, columns)
    assert shop.catch_up().batches == 0


def test_a_newly_matching_table_can_be_refused_or_followed_without_its_rows(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE later (id INT PRIMARY KEY)")
    shop.run("INSERT INTO later VALUES (1)")
    shop.options["tables"] = f"{shop.database}.t"
    shop.catch_up()
    shop.options |= {"tables": rf"{shop.database}.\.*", "scan.newly-added-table.enabled": False}
    with pytest.raises(SourceError, match=r"tables match since the pipeline file was edited: copy_\w+\.later"):
        shop.catch_up()
    shop.options |= {"scan.newly-added-table.enabled": True}
    shop.options["scan.startup.table-modes"] = {f"{shop.database}.later": "latest-offset"}
    shop.catch_up()
    shop.run("INSERT INTO later VALUES (2)")
    shop.catch_up()
    assert shop.sink.rows(shop.table("later")) == [{"id": 2}]


@pytest.mark.parametrize("small_batches", [False, True], ids=["", "in batches of one transaction"])
def test_a_newly_matching_table_that_the_unread_log_alters_is_copied_from_there_on(
    shop: Shop, small_batches: bool
) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    for name in ("altered", "renamed", "made_again", "dropped"):
        shop.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1)")
    shop.options["tables"] = f"{shop.database}.t"
    shop.catch_up()
    for name in ("altered", "renamed", "made_again", "dropped"):
        shop.run(
            f"INSERT INTO {name} VALUES (2, 2)", f"ALTER TABLE {name} ADD w INT AFTER id", f"TRUNCATE {name}",
            f"INSERT INTO {name} VALUES (3, 3, 3)", f"ALTER TABLE {name} DROP v", f"INSERT INTO {name} VALUES (4, 4)",
        )  # fmt: skip
    shop.run("INSERT INTO t VALUES (2)", "RENAME TABLE renamed TO new_name", "DROP TABLE dropped, made_again")
    shop.run("CREATE TABLE IF NOT EXISTS altered (id INT)", "CREATE TABLE made_again (id INT PRIMARY KEY, x INT)")
    shop.run("INSERT INTO made_again VALUES (5, 5)", "UPDATE altered SET w = 6 WHERE id = 4")
    shop.options["tables"] = rf"{shop.database}.\.*"
    shop.catch_up(Limits(1, 1) if small_batches else LIMITS)
    assert shop.sink.tables == {shop.table(name) for name in ("t", "altered", "new_name", "made_again")}
    for name, columns in (("t", "id"), ("altered", "id, w"), ("new_name", "id, w"), ("made_again", "id, x")):
        assert not shop.differs(name, columns)
    shop.run("DELETE FROM altered WHERE id = 3", "INSERT INTO new_name VALUES (7, 7)")
    shop.catch_up()
    assert not shop.differs("altered", "id, w")
    assert not shop.differs("new_name", "id, w")


def test_a_newly_matching_table_that_the_unread_log_alters_is_refused_where_it_is_not_copied(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE later (id INT PRIMARY KEY)")
    shop.options["tables"] = f"{shop.database}.t"
    shop.catch_up()
    shop.run("ALTER TABLE later ADD COLUMN x INT")
    shop.options |= {"tables": rf"{shop.database}.\.*", "schema-change.uncertain": "stop"}
    with pytest.raises(SourceError, match="was altered in the part of the log that is not read yet"):
        shop.catch_up()


def test_tables_that_the_unread_log_has_renamed_are_none_that_match_newly(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"
    )
    shop.catch_up()
    shop.run("CREATE TABLE made LIKE t", "RENAME TABLE t TO old, made TO t", "INSERT INTO t VALUES (2)")
    shop.run("CREATE TABLE made (id INT PRIMARY KEY)", "ALTER TABLE made RENAME next", "INSERT INTO next VALUES (3)")
    shop.options["tables.exclude"] = f"{shop.database}.other"
    shop.catch_up()
    for name in ("t", "old", "next"):
        assert not shop.differs(name, "id")


@pytest.mark.parametrize("confirms", [True, False], ids=["", "the engine ended before it could confirm"])
def test_a_table_that_was_left_out_for_a_time_is_re_snapshotted(shop: Shop, confirms: bool) -> None:
    """Nobody has followed it meanwhile: neither its rows nor its columns are what the sink has."""
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE out_for (id INT PRIMARY KEY, v INT)")
    shop.run("CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)")
    shop.run("INSERT INTO out_for VALUES (1, 1), (2, 2)")
    shop.catch_up()
    shop.options["tables.exclude"] = rf"{shop.database}.out_for, {shop.database}.gone"
    shop.run(
        "DELETE FROM out_for WHERE id = 1", "ALTER TABLE out_for ADD w INT", "INSERT INTO out_for VALUES (3, 3, 3)"
    )
    shop.run("DROP TABLE gone", "INSERT INTO t VALUES (1)")
    shop.catch_up(confirms=confirms)
    del shop.options["tables.exclude"]
    shop.run("INSERT INTO out_for VALUES (4, 4, 4)")
    shop.catch_up()
    shop.run(
        "CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (2)", "DELETE FROM out_for WHERE id = 2"
    )
    shop.catch_up()
    for name, columns in (("t", "id"), ("out_for", "id, v, w"), ("gone", "id")):
        assert not shop.differs(name, columns)
    assert shop.catch_up().batches == 0


@pytest.mark.parametrize("followed", [True, False], ids=["followed before", "seen in the log alone"])
def test_a_table_that_is_taken_in_may_have_lost_its_name_in_the_unread_log(shop: Shop, followed: bool) -> None:
    """Its definition is known from the log, and neither its rows nor its columns are in the sink."""
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    names = ("moved", "swapped", "gone")
    creations = [f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in names]
    if followed:
        shop.run(*creations, *(f"INSERT INTO {name} VALUES (1, 1)" for name in names))
        shop.catch_up()
    shop.options["tables"] = f"{shop.database}.t"
    shop.catch_up()
    shop.run(*(() if followed else creations), *(f"INSERT INTO {name} VALUES (2, 2)" for name in names))
    shop.run("INSERT INTO t VALUES (2)")
    shop.catch_up()
    shop.run(
        "INSERT INTO moved VALUES (3, 3)", "RENAME TABLE moved TO moved_on", "INSERT INTO moved_on VALUES (4, 4)",
        "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (5)", "INSERT INTO swapped VALUES (6, 6)",
        "RENAME TABLE swapped TO third, other TO swapped, third TO other", "INSERT INTO other VALUES (7, 7)",
        "INSERT INTO swapped VALUES (8)", "ALTER TABLE gone ADD w INT", "DROP TABLE gone",
    )  # fmt: skip
    del shop.options["tables"]
    shop.catch_up()
    for name, columns in (("t", "id"), ("moved_on", "id, v"), ("swapped", "id"), ("other", "id, v")):
        assert not shop.differs(name, columns)
    assert shop.sink.tables == {shop.table(name) for name in ("t", "moved_on", "swapped", "other")}


def test_a_table_that_is_left_out_for_a_batch_that_was_planned_already_is_re_snapshotted(shop: Shop) -> None:
    """The run without it has only repeated that batch, and planned none."""
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    shop.catch_up()
    shop.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    assert shop.offset is not None
    start, before = shop.offset, shop.source()
    end = before.latest_offset(start, LIMITS, 5.0)
    before.stop()
    shop.options["tables.exclude"] = f"{shop.database}.t"
    shop.repeat(start, end)
    del shop.options["tables.exclude"]
    shop.run("INSERT INTO t VALUES (2)")
    shop.catch_up()
    for name in ("t", "u"):
        assert not shop.differs(name, "id")


def test_a_table_that_is_taken_in_again_before_a_batch_without_it_is_decided_goes_on_as_the_hint_says(
    shop: Shop,
) -> None:
    """The batch has its rows, and lacks its schema change."""
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    shop.catch_up()
    shop.run("ALTER TABLE t ADD v INT", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1)")
    assert shop.offset is not None
    shop.options["tables.exclude"] = left_out = f"{shop.database}.t"
    start, before = shop.offset, shop.source()
    end = before.latest_offset(start, LIMITS, 5.0)
    before.stop()
    del shop.options["tables.exclude"]
    with pytest.raises(EngineError, match="do not fit the sink's table") as caught:
        shop.repeat(start, end)
    assert "once with the table left out (tables.exclude), then with it" in caught.value.hint
    shop.options["tables.exclude"] = left_out
    shop.repeat(start, end)
    shop.catch_up()
    del shop.options["tables.exclude"]
    shop.catch_up()
    for name, columns in (("t", "id, v"), ("u", "id")):
        assert not shop.differs(name, columns)


def test_a_table_that_is_left_out_leaves_a_batch_that_was_planned_already(shop: Shop) -> None:
    """As when the sink has refused one of its changes: the batch is repeated, and goes on without the table."""
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE refused (id INT PRIMARY KEY)")
    shop.catch_up()
    assert shop.offset is not None
    shop.run("INSERT INTO t VALUES (1)", "ALTER TABLE refused ADD x INT", "INSERT INTO refused VALUES (1, 1)")
    planned, at = [], shop.offset
    before = shop.source()
    before.stop_at_current()
    while (end := before.latest_offset(at, LIMITS, 0.0)) != at:
        planned.append((at, end, before.splits(at, end, 1)))
        at = end
    before.stop()
    changes = [change for start, end, _ in planned for change in before.events(start, end)]
    assert {change.table.table for change in changes} == {"refused"}
    shop.options["tables.exclude"] = f"{shop.database}.refused"
    after = shop.source()
    for start, end, splits in planned:
        assert not after.events(start, end)
        blocks = [block for split in splits for block in after.read(split, lambda *_: None, lambda _: None)]
        assert {block.table.table for block in blocks} <= {"t"}


def test_a_table_that_was_left_out_is_refused_where_none_is_copied(shop: Shop) -> None:
    shop.options["scan.startup.mode"] = "latest-offset"
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    shop.catch_up()
    shop.options["tables.exclude"] = f"{shop.database}.u"
    shop.run("INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (1)")
    shop.catch_up()
    del shop.options["tables.exclude"]
    with pytest.raises(SourceError, match=r"\.u: was left out for a time.*table-modes"):
        shop.catch_up()
    shop.options["scan.startup.table-modes"] = {f"{shop.database}.u": "initial"}
    shop.catch_up()
    assert shop.sink.rows(shop.table("u")) == [{"id": 1}]


def test_a_table_that_is_added_where_the_log_is_read_from_its_beginning_comes_with_its_rows(shop: Shop) -> None:
    """Its CREATE TABLE was read long ago, when nobody wanted it."""
    shop.run("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)")
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop.options |= {"scan.startup.mode": "earliest-offset", "tables": f"{shop.database}.t"}
    shop.catch_up()
    shop.options["tables"] = rf"{shop.database}.\.*"
    shop.run("INSERT INTO later VALUES (2)", "INSERT INTO t VALUES (2)")
    shop.catch_up()
    for name in ("t", "later"):
        assert not shop.differs(name, "id")
    assert shop.catch_up().batches == 0


def test_resync_re_snapshots_one_table(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(250)}")
    shop.run("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    shop.catch_up()
    shop.sink._rows[shop.table("t")].clear()  # somebody has emptied the table in the sink
    Mailbox(LocalStore(shop.folder / "engine")).add(shop.table("t"), RequestKind.SNAPSHOT)
    shop.run("UPDATE t SET name = 'meanwhile' WHERE id = 7")
    run = shop.catch_up()
    assert run.inserts == 250
    assert run.events == [on.SnapshotBegun(shop.table("t")), on.SnapshotDone(shop.table("t"))]
    assert not shop.differs("t", "id, name")
    assert shop.catch_up().batches == 0
    assert shop.source().snapshots(TableId("elsewhere", "t")) is Snapshots.NEVER


def test_an_order_for_a_table_that_is_not_there_is_not_waited_for(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.catch_up()
    source = shop.source()
    source.order({shop.table("missing"): Order("1-x", "cdc resync")})
    source.stop_at_current()
    assert shop.offset is not None
    assert source.latest_offset(shop.offset, None, 0.0) == shop.offset
    source.stop()


def test_tables_start_each_in_their_own_mode(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE log_a (id INT PRIMARY KEY)")
    shop.run("INSERT INTO t VALUES (1)", "INSERT INTO log_a VALUES (1)")
    shop.options["scan.startup.table-modes"] = {rf"{shop.database}.log_\.*": "latest-offset"}
    shop.catch_up()
    shop.run("INSERT INTO t VALUES (2)", "INSERT INTO log_a VALUES (2)")
    shop.catch_up()
    assert shop.sink.rows(shop.table("t")) == [{"id": 1}, {"id": 2}]
    assert shop.sink.rows(shop.table("log_a")) == [{"id": 2}]


def test_a_filter_leaves_rows_out_of_the_copy(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(250)}")
    shop.options["scan.snapshot.filters"] = {f"{shop.database}.t": "name LIKE '%9' OR id = 4"}
    assert shop.catch_up().inserts == 26


def test_a_table_is_split_by_the_column_that_is_named(shop: Shop) -> None:
    shop.run("CREATE TABLE t (a INT, b INT, KEY (b))")
    shop.run("INSERT INTO t VALUES " + ", ".join(f"({n}, {'NULL' if n % 9 == 0 else n})" for n in range(500)))
    shop.options["scan.incremental.snapshot.chunk.key-column"] = f"{shop.database}.t:b"
    assert shop.catch_up().inserts == 500
    assert len({entry["number"] for entry in shop.plan() if entry["kind"] == "chunk"}) > 3
    assert not shop.differs("t", "a, b")


@pytest.mark.parametrize(
    ("column", "reason"),
    [("missing", "there is no column missing"), ("name", "no index begins with name"), ("v", "not a column of the p")],
)
def test_a_split_column_that_will_not_do_is_refused(shop: Shop, column: str, reason: str) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))", "CREATE TABLE u (name VARCHAR(20), e INT)")
    table = "u" if column == "name" else "t"
    shop.options["scan.incremental.snapshot.chunk.key-column"] = f"{shop.database}.{table}:{column}"
    with pytest.raises(SourceError, match=reason):
        shop.catch_up()


def test_many_small_tables_are_few_batches(shop: Shop) -> None:
    shop.run(*(f"CREATE TABLE t{n} (id INT PRIMARY KEY)" for n in range(60)))
    shop.run(*(f"INSERT INTO t{n} VALUES ({n})" for n in range(60)))
    run = shop.catch_up()
    assert run.inserts == 60
    assert run.batches <= 20


def test_progress_is_told_table_by_table(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(450)}")
    source = shop.source()
    source.stop_at_current()
    assert source.progress() == []
    run_in_memory(source, shop.sink, limits=LIMITS)
    (found,) = source.progress()
    assert (found.table, found.state, found.rows, found.estimated_rows) == (shop.table("t"), "done", 450, 450)
    assert found.chunks == found.planned_chunks > 3


def test_a_view_is_refused_by_its_name(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE VIEW seen AS SELECT * FROM t")
    shop.options["tables"] = f"{shop.database}.seen"
    with pytest.raises(SourceError, match=r"seen is a view: the binlog has only the rows of its tables"):
        shop.catch_up()


def test_a_table_that_is_renamed_in_is_copied(shop: Shop) -> None:
    shop.options["tables"] = rf"{shop.database}.t, {shop.database}.u"
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    shop.catch_up()
    shop.run("INSERT INTO t VALUES (3)", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD name VARCHAR(20)")
    shop.run(f"INSERT INTO _t_gho VALUES {numbers(250)}", "RENAME TABLE t TO _t_del, _t_gho TO t")
    shop.run("UPDATE t SET name = 'after' WHERE id < 3", "INSERT INTO t VALUES (900, 'x')")
    shop.run("CREATE TABLE tmp (id INT PRIMARY KEY, v INT)", "INSERT INTO tmp VALUES (1, 1), (2, 2)")
    shop.run("ALTER TABLE tmp RENAME TO u", "DELETE FROM u WHERE id = 1")
    run = shop.catch_up()
    assert (run.updates, run.deletes) == (0, 0)
    assert run.inserts == 1 + 251 + 1
    assert shop.sink.tables == {shop.table("t"), shop.table("u")}
    assert not shop.differs("t", "id, name")
    assert not shop.differs("u", "id, v")
    shop.run("UPDATE t SET name = 'later' WHERE id = 4", "DELETE FROM u")
    run = shop.catch_up()
    assert (run.inserts, run.updates, run.deletes) == (0, 1, 1)
    assert not shop.differs("t", "id, name")


def test_a_table_that_is_renamed_in_and_was_there_before_is_asked_for_and_copied(shop: Shop) -> None:
    shop.options["tables"] = rf"{shop.database}.t, {shop.database}.u"
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE old (id INT PRIMARY KEY, v INT)")
    shop.run("INSERT INTO old VALUES (1, 1)")
    shop.catch_up()
    shop.run("RENAME TABLE old TO u", "INSERT INTO u VALUES (2, 2)")
    shop.catch_up()
    assert not shop.differs("u", "id, v")


def test_a_table_that_is_renamed_in_and_altered_later_is_copied_from_there_on(shop: Shop) -> None:
    shop.options["tables"] = rf"{shop.database}.t, {shop.database}.u"
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE old (id INT PRIMARY KEY, v INT)")
    shop.run("INSERT INTO old VALUES (1, 1)")
    shop.catch_up()
    shop.run("RENAME TABLE old TO u", "INSERT INTO u VALUES (2, 2)", "ALTER TABLE u ADD w INT FIRST")
    shop.run("INSERT INTO t VALUES (1), (2), (3), (4)", "INSERT INTO u VALUES (3, 3, 3)")
    shop.run("ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t (id)", "INSERT INTO u VALUES (4, 4, 4)")
    shop.run("ALTER TABLE t ADD x INT")
    shop.catch_up()
    assert not shop.differs("u", "w, id, v")
    assert not shop.differs("t", "id, x")


def test_a_table_that_is_renamed_in_is_refused_where_none_is_copied(shop: Shop) -> None:
    shop.options |= {"tables": f"{shop.database}.t", "scan.newly-added-table.enabled": False}
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.catch_up()
    shop.run("DROP TABLE t", "CREATE TABLE tmp (id INT PRIMARY KEY)", "RENAME TABLE tmp TO t")
    with pytest.raises(UnsupportedChange, match="so its rows are not known"):
        shop.catch_up()


@pytest.mark.slow
def test_starting_asks_the_server_no_more_for_more_tables(shop: Shop, tmp_path: Path) -> None:
    asked = []
    for count in (20, 160):
        shop.run(*(f"CREATE TABLE IF NOT EXISTS t{n} (id INT PRIMARY KEY)" for n in range(count)))
        shop.folder = tmp_path / str(count)
        source = shop.source()
        before = _questions(shop.server)
        assert len(source.tables()) == count
        source.initial_offset()
        asked.append(_questions(shop.server) - before)
        source.stop()
    assert asked[1] <= asked[0] + 10, asked


def _questions(server: MySqlServer) -> int:
    return int(server.execute("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])
