"""Chunks of a table that is written to at the worst moments: each is the table at the position it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import waits
from chunk_reads import ChunkReads
from waits import Waits

from cdc.errors import SourceError, SourceUnavailable, UnsupportedChange
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.server.same_server import AnotherServer
from connectors.mysql.snapshot.chunk import Chunk
from connectors.mysql.snapshot.read import opening
from connectors.mysql.snapshot.read.read_settings import ReadSettings
from connectors.mysql.snapshot.read.session import SessionPool
from connectors.mysql.value_rules import ValueRules

pytestmark = pytest.mark.mysql


class Made:
    """A table with rows 1 to 6."""

    def __init__(self, server: MySqlServer, key: str = "PRIMARY KEY", options: str = "") -> None:
        self.server, self.database = server, server.new_database("chunk")
        self.id = TableId(self.database, "t")
        self.execute(
            f"CREATE TABLE t (id INT NOT NULL {key}, note VARCHAR(20)) {options}",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')",
        )
        self.reads = ChunkReads(server)
        self.table = self.reads.definition(self.id)

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def once(self, *statements: str) -> Callable[[], float]:
        """A clock that runs the statements when it is asked first: after the view, before the log's end is noted."""
        left = [statements]

        def clock() -> float:
            if left:
                self.execute(*left.pop())
            return 1234.5

        return clock


_CHANGES = (
    "UPDATE t SET note = 'new' WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
    "INSERT INTO t VALUES (7, 'g'), (8, 'gone')",
    "DELETE FROM t WHERE id = 8",
    "UPDATE t SET id = 9 WHERE id = 4",
    "UPDATE t SET id = 40 WHERE id = 5",
)


def test_a_quiet_table_needs_no_look_at_the_log(any_server: MySqlServer) -> None:
    made = Made(any_server)
    rows, report = made.reads.read(made.table, clock=lambda: 1234.5)
    assert rows == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    assert (report.number, report.done, report.rows) == (5, True, 6)
    statement = "SHOW MASTER STATUS" if any_server.flavor == "mariadb" else "SHOW BINARY LOG STATUS"
    status = any_server.execute(statement)[0]
    assert (report.file, report.position) == status[:2]
    number = int(report.file.rpartition(".")[2])
    assert report.sequence == number * 2**40 + report.position
    block = made.reads.blocks[-1]
    assert block.metadata is not None
    told = {name: block.metadata(name, block.sequence)[0].as_py() for name in ("log_file", "binlog_begin", "gtid")}
    assert told == {"log_file": report.file, "binlog_begin": report.position, "gtid": None}
    (block,) = made.reads.blocks
    assert block.kinds.to_pylist() == [0] * 6
    assert set(block.sequence.to_pylist()) == {report.sequence}
    assert block.row.to_pylist() == list(range(6))
    assert set(block.timestamps_ms.to_pylist()) == {1_234_500}
    assert made.reads.streams == 0


def test_changes_after_the_view_are_in_the_chunk(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    chunk = Chunk(5, made.id, columns=("id",), lower=(1,), upper=(30,), collations=(None,))
    rows, report = made.reads.read(made.table, chunk, clock=made.once(*_CHANGES))
    assert sorted(rows) == [(2, "new"), (6, "f"), (7, "g"), (9, "d")]
    assert report.rows == 4
    assert made.reads.streams == 1
    numbers = [number for block in made.reads.blocks for number in block.row.to_pylist()]
    assert numbers == sorted(set(numbers))


def test_mariadb_names_the_place_of_the_view_itself(mariadb_server: MySqlServer) -> None:
    made = Made(mariadb_server)
    before = mariadb_server.execute("SHOW MASTER STATUS")[0]
    rows, report = made.reads.read(made.table, clock=made.once(*_CHANGES))
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (report.file, report.position) == before[:2]


def test_without_its_window_a_chunk_counts_as_of_its_beginning(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    before = mysql_server.execute("SHOW BINARY LOG STATUS")[0]
    rows, report = made.reads.read(
        made.table, settings=ReadSettings(skip_window=True), clock=made.once("DELETE FROM t WHERE id = 3")
    )
    assert len(rows) == 6
    assert (report.file, report.position) == before[:2]
    assert made.reads.streams == 0


def test_keys_of_several_columns_of_any_type_are_told_apart(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    made.execute(
        "CREATE TABLE k (a VARCHAR(9), b DATETIME(3), c DECIMAL(6,2), v INT, PRIMARY KEY (a, b, c))",
        "INSERT INTO k VALUES ('x', '2026-01-01', 1, 1), ('x', '2026-01-02', 1, 2), ('y', '2026-01-01', 1, 3)",
    )
    table = made.reads.definition(TableId(made.database, "k"))
    changes = (
        "UPDATE k SET v = 20 WHERE b = '2026-01-02'",
        "UPDATE k SET a = 'Y', v = 30 WHERE a = 'y'",
        "INSERT INTO k VALUES ('z', '2026-01-02', 1, 4)",
    )
    rows, _ = made.reads.read(table, clock=made.once(*changes))
    assert sorted((row[0], row[3]) for row in rows) == [("Y", 30), ("x", 1), ("x", 20), ("z", 4)]


def test_a_table_without_a_key_is_read_at_a_quiet_moment(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server, key="")
    rows, report = made.reads.read(made.table, clock=made.once("INSERT INTO t VALUES (2, 'b')"))
    assert sorted(rows) == sorted([(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f"), (2, "b")])
    assert report.rows == 7
    assert made.reads.streams == 1  # the second view's window is empty


def test_a_table_without_a_key_that_is_never_quiet_is_an_error(
    mysql_server: MySqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "VIEW_TRIES", 4)
    made = Made(mysql_server, key="")

    def clock() -> float:
        made.execute("INSERT INTO t VALUES (7, 'g')")
        return 0.0

    with pytest.raises(
        SourceUnavailable, match="none at a quiet moment: rows changed, and the table has no key"
    ) as error:
        made.reads.read(made.table, clock=clock, retry=waits.none())
    assert "primary key" in error.value.hint


def test_more_rows_than_may_be_held_are_waited_out(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    rows, _ = made.reads.read(
        made.table, settings=ReadSettings(most_window_rows=3), clock=made.once("UPDATE t SET note = 'z'")
    )
    assert [row[1] for row in rows] == ["z"] * 6


def test_a_table_emptied_after_the_view_is_read_again(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    rows, report = made.reads.read(made.table, clock=made.once("TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'new')"))
    assert (rows, report.done) == ([(1, "new")], True)


@pytest.mark.parametrize("change", ["ALTER TABLE t ADD COLUMN more INT", "ALTER TABLE t RENAME COLUMN note TO text"])
def test_a_table_altered_at_any_moment_is_not_read(any_server: MySqlServer, change: str) -> None:
    for clock in (True, False):
        made = Made(any_server)
        if not clock:
            made.execute(change)
        rows, report = made.reads.read(made.table, clock=made.once(change) if clock else lambda: 0.0)
        assert (rows, report.done, report.rows) == ([], False, 0)
        statement = "SHOW MASTER STATUS" if any_server.flavor == "mariadb" else "SHOW BINARY LOG STATUS"
        assert (report.file, report.position) == any_server.execute(statement)[0][:2]


def test_a_dropped_table_is_not_read(any_server: MySqlServer) -> None:
    made = Made(any_server)
    made.execute("DROP TABLE t")
    rows, report = made.reads.read(made.table)
    assert (rows, report.done) == ([], False)


def test_defaults_and_comments_do_not_matter(any_server: MySqlServer) -> None:
    made = Made(any_server)
    made.execute("ALTER TABLE t MODIFY note VARCHAR(20) DEFAULT 'x' COMMENT 'y'")
    assert made.reads.read(made.table)[1].done


def test_a_view_that_is_too_old_is_opened_again(any_server: MySqlServer) -> None:
    made = Made(any_server)
    now = made.reads.read(made.table)[1]

    def then(number: int) -> None:
        if number == 3:
            made.execute("INSERT INTO t VALUES (7, 'g')")

    waited = Waits(then)
    rows, report = made.reads.read(made.table, settings=ReadSettings(least=now.sequence + 1), retry=waited.policy)
    assert len(rows) == 7
    assert waited.parts == 3
    assert report.sequence > now.sequence


def test_another_server_is_reported(any_server: MySqlServer) -> None:
    made = Made(any_server)
    rows, report = made.reads.read(made.table, settings=ReadSettings(server="somebody else"))
    assert (rows, report.done, report.file, report.sequence) == ([], False, "", 0)


def test_another_server_behind_the_same_address_is_reported(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)

    def at(position: object) -> None:
        raise AnotherServer("somebody else")

    made.reads.at = at  # type: ignore[method-assign, assignment]
    rows, report = made.reads.read(made.table, clock=made.once("DELETE FROM t"))
    assert (rows, report.done) == ([], False)


def test_a_table_whose_engine_has_no_views_is_refused(any_server: MySqlServer) -> None:
    made = Made(any_server, options="ENGINE=MyISAM")
    with pytest.raises(SourceError, match="engine MyISAM") as error:
        made.reads.read(made.table)
    assert f"ALTER TABLE `{made.database}`.`t` ENGINE=InnoDB" in error.value.hint


def test_a_filter_holds_for_the_rows_of_the_query(any_server: MySqlServer) -> None:
    made = Made(any_server)
    where = "note LIKE '%b%' OR id > 4 -- all others are old"
    rows, _ = made.reads.read(made.table, settings=ReadSettings(where=where))
    assert [row[0] for row in rows] == [2, 5, 6]
    with pytest.raises(SourceError, match="1054") as error:
        made.reads.read(made.table, settings=ReadSettings(where="nothing > 4"))
    assert "nothing > 4" in error.value.hint


def test_prepared_transactions_are_waited_for(any_server: MySqlServer) -> None:
    made = Made(any_server)
    session = any_server.connect(database=made.database)

    def then(number: int) -> None:
        if number == 4:
            with session.cursor() as cursor:
                cursor.execute("XA COMMIT 'snapshot'")

    try:
        with session.cursor() as cursor:
            for statement in ("XA START 'snapshot'", "INSERT INTO t VALUES (7, 'g')", "XA END 'snapshot'"):
                cursor.execute(statement)
            cursor.execute("XA PREPARE 'snapshot'")
        waited = Waits(then)
        rows, _ = made.reads.read(made.table, retry=waited.policy)
    finally:
        session.close()
    assert len(rows) == 7
    assert waited.total_s == pytest.approx(1.5)


def test_an_account_that_may_not_see_prepared_transactions(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    made.execute("XA START 'seen'", "XA END 'seen'", "XA PREPARE 'seen'", "XA COMMIT 'seen'")
    name = f"copies_{made.database}"[:32]
    made.execute(
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'Xy-12345'",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{name}'@'%'",
    )
    made.reads.user = {"user": name, "password": "Xy-12345", "ssl_disabled": True}
    with pytest.raises(SourceError, match="XA transactions are used") as error:
        made.reads.read(made.table)
    assert error.value.hint == f"run on the server: GRANT XA_RECOVER_ADMIN ON *.* TO '{name}'@'%'"
    made.execute(f"GRANT XA_RECOVER_ADMIN ON *.* TO '{name}'@'%'")
    assert made.reads.read(made.table)[1].done


def test_a_statement_that_is_killed_can_be_tried_again(any_server: MySqlServer) -> None:
    made = Made(any_server)
    made.execute(
        "CREATE TABLE long_rows (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)",
        "INSERT INTO long_rows (v) VALUES (REPEAT('x', 1000000))",
        *["INSERT INTO long_rows (v) SELECT v FROM long_rows"] * 6,
    )
    table = made.reads.definition(TableId(made.database, "long_rows"))

    def kill(block: object) -> None:
        for row in any_server.execute("SHOW PROCESSLIST"):
            if str(row[7] or "").startswith("SELECT `id`, `v`") or row[4] == "Execute":
                any_server.execute(f"KILL QUERY {row[0]}")

    with pytest.raises(SourceUnavailable) as error:
        made.reads.read(table, on_block=kill)
    assert "long_rows" in str(error.value)
    assert not any(session.open for session in made.reads.sessions)


def test_sessions_that_are_closed_after_the_last_row_do_not_undo_the_chunk(any_server: MySqlServer) -> None:
    """By the server's wait_timeout, when the sink takes the last rows slowly."""
    made = Made(any_server)

    def close(block: object) -> None:
        for session in filter(lambda each: each.open, made.reads.sessions):
            any_server.execute(f"KILL {session.thread_id()}")

    rows, _ = made.reads.read(made.table, on_block=close)
    assert len(rows) == 6


def test_the_first_steps_are_tried_again(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    real, failures = made.reads.session, [SourceUnavailable("away"), SourceUnavailable("away")]

    def session() -> object:
        if failures and len(made.reads.sessions) > 1:
            raise failures.pop()
        return real()

    made.reads.session = session  # type: ignore[method-assign, assignment]
    waited = Waits()
    rows, _ = made.reads.read(made.table, retry=waited.policy)
    assert len(rows) == 6
    assert waited.total_s == pytest.approx(1.5)


def test_an_abandoned_reader_leaves_no_session(any_server: MySqlServer) -> None:
    made = Made(any_server)

    def stop(block: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.reads.read(made.table, on_block=stop)
    assert not any(session.open for session in made.reads.sessions)


def test_versions_of_rows_are_read_as_the_log_has_them(mariadb_server: MySqlServer) -> None:
    made = Made(mariadb_server)
    made.execute(
        "CREATE TABLE v (id INT PRIMARY KEY, note VARCHAR(9)) WITH SYSTEM VERSIONING",
        "INSERT INTO v VALUES (1, 'a')",
        "UPDATE v SET note = 'b'",
    )
    rows, _ = made.reads.read(made.reads.definition(TableId(made.database, "v")))
    assert sorted(row[1] for row in rows) == ["a", "b"]


def test_generated_and_invisible_columns_are_read(mysql_server: MySqlServer) -> None:
    made = Made(mysql_server)
    made.execute(
        "CREATE TABLE g (a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) STORED, d INT DEFAULT 4 INVISIBLE)",
        "INSERT INTO g (a) VALUES (1)",
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE h (a INT)",
        "INSERT INTO h VALUES (1)",
    )
    assert made.reads.read(made.reads.definition(TableId(made.database, "g")))[0] == [(1, 2, 3, 4)]
    assert made.reads.read(made.reads.definition(TableId(made.database, "h")))[0] in ([(1, 1)], [(1,)])


def test_a_partitioned_table_is_read(any_server: MySqlServer) -> None:
    made = Made(any_server, options="PARTITION BY HASH (id) PARTITIONS 3")
    assert sorted(made.reads.read(made.table)[0]) == [(n, "abcdef"[n - 1]) for n in range(1, 7)]


def test_an_invalid_date_is_counted_or_refused(any_server: MySqlServer) -> None:
    made = Made(any_server)
    made.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES'", "CREATE TABLE d (id INT PRIMARY KEY, at DATETIME)",
        "INSERT INTO d VALUES (1, '2026-02-31 10:11:12'), (2, '0000-00-00'), (3, '2026-02-28')",
    )  # fmt: skip
    table = made.reads.definition(TableId(made.database, "d"))
    rows, _ = made.reads.read(table)
    assert [row[1] is None for row in rows] == [True, True, False]
    assert made.reads.counts == {f"invalid-date-to-null {made.database}.d.at": 2}
    with pytest.raises(UnsupportedChange, match="column at holds 2026-02-31 10:11:12, which is not a date"):
        made.reads.read(table, settings=ReadSettings(rules=ValueRules(strict_dates=True)))


def test_a_vector_that_is_none_of_floats_is_told(mysql_server: MySqlServer) -> None:
    """MySQL takes any bytes for one where the mode is not strict."""
    made = Made(mysql_server)
    made.execute(
        "SET sql_mode = ''", "CREATE TABLE v (id INT PRIMARY KEY, c BLOB)", "INSERT INTO v VALUES (1, 'abcde')",
        "ALTER TABLE v MODIFY c VECTOR(3)",
    )  # fmt: skip
    table = made.reads.definition(TableId(made.database, "v"))
    with pytest.raises(
        UnsupportedChange, match="column c holds a VECTOR whose length is not a multiple of 4"
    ) as caught:
        made.reads.read(table)
    made.execute("DELETE FROM v WHERE LENGTH(c) % 4 <> 0")
    assert "WHERE LENGTH(c) % 4 <> 0" in caught.value.hint
    assert made.reads.read(table)[0] == []


def test_rows_are_numbered_in_blocks_of_bounded_size(any_server: MySqlServer) -> None:
    made = Made(any_server)
    made.execute(
        "CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO n (v) SELECT a.id FROM t a, t b, t c, t d, t e, t f",
        "INSERT INTO n (v) SELECT a.id FROM t a, t b, t c, t d, t e, t f WHERE f.id < 4",
    )
    table = made.reads.definition(TableId(made.database, "n"))
    rows, report = made.reads.read(table)
    assert len(rows) == report.rows == any_server.execute(f"SELECT count(*) FROM {made.database}.n")[0][0]
    assert report.rows == 3 * 6**6 // 2 > 1 << 16
    assert max(len(block) for block in made.reads.blocks) <= 1 << 16
    numbers = np.concatenate([block.row.to_numpy() for block in made.reads.blocks])
    assert (numbers == np.arange(report.rows)).all()


def test_the_definition_counts_and_not_its_place_in_the_plan(any_server: MySqlServer) -> None:
    made = Made(any_server)
    other = replace(made.table, columns=(made.table.columns[0], replace(made.table.columns[1], charset="latin1")))
    assert not made.reads.read(other)[1].done


def test_sessions_can_be_kept_for_the_next_chunk(any_server: MySqlServer) -> None:
    made = Made(any_server)
    pool = SessionPool()
    try:
        made.reads.read(made.table, pool=pool)
        opened = len(made.reads.sessions)
        made.execute("INSERT INTO t VALUES (7, 'g')", "ALTER TABLE t ADD COLUMN more INT")  # no lock is left
        assert not made.reads.read(made.table, pool=pool)[1].done
        again = made.reads.read(replace(made.table, columns=made.reads.definition(made.id).columns), pool=pool)
        assert len(again[0]) == 7
        assert len(made.reads.sessions) == opened + 1  # the one that read the definition
        for session in made.reads.sessions:
            if session.open:
                any_server.execute(f"KILL {session.thread_id()}")  # type: ignore[no-untyped-call]
        table = made.reads.definition(made.id)
        assert made.reads.read(table, pool=pool, retry=Waits().policy)[1].done
    finally:
        pool.close()
    assert not any(session.open for session in made.reads.sessions)
