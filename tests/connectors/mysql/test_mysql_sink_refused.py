"""Rows that a table of a MySQL or OceanBase server does not take: told exactly, or in dead letters. Real servers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from mysql_sink_harness import Harness
from sink_calls import created, prepared

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError, SinkUnavailable, SourceUnavailable
from cdc.evolution.steps import Statement
from cdc.process import faults
from cdc.retry import RetryPolicy
from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import Sink
from cdc.testing.blocks import block
from cdc_services.server import MySqlServer
from connectors.mysql.sink import load
from connectors.mysql.sink.catalog import MySqlSchemas
from connectors.mysql.sink.session import SinkSession
from connectors.mysql.snapshot.read.result_columns import RowReader
from connectors.shared.sql.client import StatementRefused

pytestmark = [pytest.mark.slow, pytest.mark.mysql]

ROWS = TableId("shop", "rows")
ID, N = Column("id", DataType.parse("INT"), nullable=False), Column("n", DataType.parse("INT"))
NAME = Column("name", DataType.parse("VARCHAR(40)"))
SCHEMA, KEYLESS = TableSchema((ID, N, NAME), ("id",)), TableSchema((ID, N, NAME), ())


@pytest.fixture(params=["mysql", "mysql-insert", "mariadb", "oceanbase"])
def server(request: pytest.FixtureRequest) -> Any:
    flavor, _, insert = request.param.partition("-")
    found: MySqlServer = request.getfixturevalue(f"{flavor}_sink_server")
    found.execute("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    if insert:
        found.execute("SET GLOBAL local_infile = OFF")
    yield found
    if insert:
        found.execute("SET GLOBAL local_infile = ON")


@pytest.fixture
def harness(server: MySqlServer, tmp_path: Path) -> Harness:
    letters = {"sink.invalid-values": "dead-letter", "sink.dead-letter.path": str(tmp_path / "letters")}
    return Harness(server, tmp_path / "state", f"pipeline-{tmp_path.name}", letters)


def rows(*changes: tuple[str, int, int | None, str | None], schema: TableSchema = SCHEMA) -> ChangeBlock:
    return block(ROWS, schema, [(kind, {"id": id_, "n": n, "name": name}) for kind, id_, n, name in changes])


def letters(harness: Harness) -> list[tuple[str, Any, Any, str]]:
    """Operation, id, column and reason of each, in the order of ids."""
    found = []
    for file in (harness.state.parent / "letters").rglob("*"):
        assert file.is_dir() or file.suffix == ".jsonl", file
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            letter = json.loads(line)
            (rejected,) = letter["rejected"]
            found.append((letter["operation"], letter["row"]["id"], rejected["column"], rejected["reason"]))
    return sorted(found)


def stored(harness: Harness) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["n"], row["name"]) for row in harness.rows(ROWS) or [])


def narrow(harness: Harness, *alters: str) -> Sink:
    """A sink whose table somebody alters once it is there; row 1 is in it."""
    sink = created(harness.sink(), ROWS, SCHEMA)
    sink.commit(0, prepared(sink, 0, rows(("+I", 1, 1, "one"))))
    harness.server.execute(*(f"ALTER TABLE shop.`rows` {alter}" for alter in alters))
    return harness.sink()


def test_exactly_the_refused_rows_are_dead_letters_with_the_server_s_reason(harness: Harness) -> None:
    """One of every kind among good ones, whatever else their statement wrote."""
    sink = narrow(harness, "MODIFY n TINYINT NOT NULL", "MODIFY name VARCHAR(8)", "ADD CHECK (n <> 66)")
    changes: list[tuple[str, int, int | None, str | None]] = [("+I", i, i % 50, f"row {i}") for i in range(2, 300)]
    bad = {20: (20, 1000, "x"), 70: (70, 7, "much too long"), 100: (100, None, "x"), 150: (150, 66, "x")}
    for at, (id_, n, name) in bad.items():
        changes[at - 2] = ("+I", id_, n, name)
    counts = sink.commit(1, prepared(sink, 1, rows(*changes)))
    assert stored(harness) == [(1, 1, "one"), *((i, i % 50, f"row {i}") for i in range(2, 300) if i not in bad)]
    found = letters(harness)
    assert [letter[:2] for letter in found] == [("upsert", id_) for id_ in bad]
    assert [column for *_, column, _ in found][:3] == ["n", "name", "n"]
    assert all("(error " in reason for *_, reason in found)
    assert counts == {
        "out-of-range-dead-letter shop.rows.n": 1, "too-long-dead-letter shop.rows.name": 1,
        "null-in-not-null-dead-letter shop.rows.n": 1, "refused-by-a-check-dead-letter shop.rows": 1,
    }  # fmt: skip


def test_pieces_of_a_batch_follow_each_other_whatever_a_table_refuses(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are read and formatted ahead; a refused row in the middle, by us or the server, holds up no other one."""
    monkeypatch.setattr(load, "_PIECE_ROWS", 2)
    sink = narrow(harness, "MODIFY n TINYINT")
    tasks = [
        rows(("+I", 2, 2, "two"), ("+I", 3, 3, "three")),
        rows(("+I", 4, 4, "four"), ("-U", 2, 2, "two"), ("+U", 2, 22, "two")),
        rows(("-U", 4, 4, "four"), ("+U", 4, 400, "four"), ("+I", 5, 5, "five")),
        rows(("-D", 3, 3, "three"), ("-U", 2, 22, "two"), ("+U", 2, 23, "two")),
        rows(("+I", 3, 33, "again"), ("-D", 5, 5, "five"), ("+I", 6, 6, "six")),
    ]
    handles = [handle for number, task in enumerate(tasks) for handle in prepared(sink, 1, task, partition=number)]
    sink.commit(1, handles)
    assert stored(harness) == [(1, 1, "one"), (2, 23, "two"), (3, 33, "again"), (4, 4, "four"), (6, 6, "six")]
    assert [letter[:2] for letter in letters(harness)] == [("upsert", 4)]


def test_the_run_stops_at_a_refused_row_with_its_key_column_and_reason(harness: Harness) -> None:
    """Nothing of the batch is in then, and all of it once the table takes it."""
    narrow(harness, "MODIFY n TINYINT")
    sink = harness.sink(**{"sink.invalid-values": "fail"})
    handles = prepared(sink, 1, rows(("+I", 2, 2, "two"), ("+I", 3, 1000, "three"), ("+I", 4, 4, "four")))
    with pytest.raises(SinkError, match=r"shop\.rows\.n, row id=3: .*(?i:out of range).*'n'.*\(error 1264\)"):
        sink.commit(1, handles)
    assert stored(harness) == [(1, 1, "one")]
    harness.server.execute("ALTER TABLE shop.`rows` MODIFY n INT")
    assert sink.commit(1, handles) == {}
    assert stored(harness) == [(1, 1, "one"), (2, 2, "two"), (3, 1000, "three"), (4, 4, "four")]


def test_a_refused_update_leaves_the_row_that_is_there(harness: Harness) -> None:
    """So does one that meets the unique value of another, and whoever meets its own."""
    sink = narrow(harness, "ADD UNIQUE (name)")
    sink.commit(1, prepared(sink, 1, rows(("+I", 2, 2, "two"), ("+I", 3, 3, "three"), ("+I", 4, 4, "four"))))
    harness.server.execute("INSERT INTO shop.`rows` VALUES (9, 9, 'nine')")
    changes = rows(
        ("-U", 1, 1, "one"), ("+U", 1, 1, "free"), ("-U", 2, 2, "two"), ("+U", 2, 2, "nine"), ("+I", 5, 5, "two"),
        ("-D", 4, 4, "four"), ("+I", 6, 6, "one"),
    )  # fmt: skip
    counts = sink.commit(2, prepared(sink, 2, changes))
    assert stored(harness) == [(1, 1, "free"), (2, 2, "two"), (3, 3, "three"), (6, 6, "one"), (9, 9, "nine")]
    assert [letter[1] for letter in letters(harness)] == [2, 5]
    assert counts == {"unique-key-taken-dead-letter shop.rows": 2}


def test_rows_without_a_key_are_refused_one_by_one(harness: Harness) -> None:
    """Equal rows each; what is deleted of a refused row is not there."""
    sink = created(harness.sink(), ROWS, KEYLESS)
    harness.server.execute("ALTER TABLE shop.`rows` MODIFY n TINYINT")
    changes = rows(
        ("+I", 1, 1, "a"), ("+I", 2, 1000, "b"), ("+I", 2, 1000, "b"), ("+I", 3, 3, "c"), ("-D", 2, 1000, "b"),
        ("+I", 4, 4, "d"), schema=KEYLESS,
    )  # fmt: skip
    counts = sink.commit(0, prepared(sink, 0, changes))
    assert stored(harness) == [(1, 1, "a"), (3, 3, "c"), (4, 4, "d")]
    assert [letter[1] for letter in letters(harness)] == [2, 2]
    assert counts == {"out-of-range-dead-letter shop.rows.n": 2, "delete-without-row shop.rows": 1}


def test_a_row_is_in_the_table_or_in_the_dead_letters_whatever_crashed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters of an attempt that died are taken back when the table takes the row now."""
    sink = narrow(harness, "MODIFY n TINYINT")
    handles = prepared(sink, 1, rows(("+I", 2, 1000, "two"), ("+I", 3, 2000, "three")))

    def die(point: str, _: int) -> None:
        if point == "mid-commit":
            raise RuntimeError("killed")

    monkeypatch.setattr(faults, "hook", die)
    with pytest.raises(RuntimeError):
        sink.commit(1, handles)
    assert len(letters(harness)) == 2
    monkeypatch.undo()
    harness.server.execute("ALTER TABLE shop.`rows` MODIFY n SMALLINT")
    assert harness.sink().commit(1, handles) == {}
    assert stored(harness) == [(1, 1, "one"), (2, 1000, "two"), (3, 2000, "three")]
    assert letters(harness) == []


def test_a_letter_says_where_in_the_log_its_row_is(harness: Harness) -> None:
    """In tables with a key, that of the image that counts, and without one."""
    sink = narrow(harness, "MODIFY n TINYINT")
    changes = rows(("+I", 2, 5, "two"), ("-U", 2, 5, "two"), ("+U", 2, 1000, "two"), ("+I", 3, 3, "three"))
    changes = replace(changes, position_text=lambda sequence: f"binlog.000007:{sequence}")
    sink.commit(1, prepared(sink, 1, changes))
    (letter,) = [json.loads(file.read_text()) for file in (harness.state.parent / "letters").rglob("*.jsonl")]
    assert letter["position"] == f"binlog.000007:{changes.sequence[2].as_py()}"


@pytest.mark.parametrize("died", [False, True])
def test_a_lost_answer_to_commit_loses_no_letter_and_no_count(harness: Harness, died: bool) -> None:
    """The batch is in; the repeat tells what the first try has left out, also where its process died."""
    sink = narrow(harness, "MODIFY n TINYINT")
    handles = prepared(sink, 1, rows(("+I", 2, 1000, "two"), ("+I", 3, 3, "three")))
    sink.commit(1, handles)
    again = harness.sink() if died else sink
    assert again.commit(1, handles) == {"out-of-range-dead-letter shop.rows.n": 1}
    assert [letter[1] for letter in letters(harness)] == [2]
    assert stored(harness) == [(1, 1, "one"), (3, 3, "three")]


def test_a_table_that_is_dropped_while_it_is_read_back_is_the_sink_s(harness: Harness) -> None:
    """For `cdc verify`: it was an internal error."""
    sink = narrow(harness, "MODIFY n TINYINT")
    found = sink.read_back(ROWS, SCHEMA)
    assert found is not None
    harness.server.execute("DROP TABLE shop.rows")
    with pytest.raises(SinkError) as raised:
        list(found.rows(None))
    assert "shop.rows" in raised.value.where
    assert raised.value.hint


def test_a_connection_that_is_lost_while_rows_are_read_back_is_the_sink_s(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = narrow(harness, "MODIFY n TINYINT")
    found = sink.read_back(ROWS, SCHEMA)
    assert found is not None
    lost = SourceUnavailable("the server closed the connection inside a result", where="shop.rows")
    monkeypatch.setattr(RowReader, "blocks", Mock(side_effect=lost))
    with pytest.raises(SinkUnavailable, match="closed the connection"):
        list(found.rows(None))


def test_a_server_that_is_away_names_the_option_with_its_address(harness: Harness) -> None:
    option, away = "sink.port", {"port": 1}
    if harness.server.flavor == "oceanbase":
        option, away = "sink.url", {"url": "jdbc:mysql://127.0.0.1:1"}
    with pytest.raises(SinkUnavailable) as refused:
        harness.sink(**away).check()
    assert f"is {option} right?" in refused.value.hint


def test_a_host_that_is_not_known_names_the_option_with_its_name(harness: Harness) -> None:
    option, unknown = "sink.hostname", {"hostname": "no.such.host.invalid"}
    if harness.server.flavor == "oceanbase":
        option, unknown = "sink.url", {"url": "jdbc:mysql://no.such.host.invalid:2881"}
    with pytest.raises((SinkError, SinkUnavailable), match="host name is not known") as refused:
        harness.sink(**unknown).check()
    assert refused.value.hint == f"check {option}"


@pytest.mark.parametrize("number", [1205, 50_001])
def test_a_row_that_a_trigger_refuses_with_a_number_of_its_own_is_a_dead_letter(harness: Harness, number: int) -> None:
    """Numbers beyond the driver's, and those of a lock wait, which would be tried again and again."""
    sink = narrow(harness)
    refuse = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'no thirteen'"
    trigger = f"FOR EACH ROW BEGIN IF NEW.n = 13 THEN {refuse}; END IF; END"
    harness.server.execute("USE shop", f"CREATE TRIGGER shop.no BEFORE INSERT ON shop.`rows` {trigger}")
    counts = sink.commit(1, prepared(sink, 1, rows(("+I", 2, 2, "two"), ("+I", 3, 13, "three"), ("+I", 4, 4, "four"))))
    assert [id_ for id_, *_ in stored(harness)] == [1, 2, 4]
    assert letters(harness) == [("upsert", 3, "", f"no thirteen (error {number})")]
    assert counts == {"refused-by-a-check-dead-letter shop.rows": 1}


def test_what_is_about_the_whole_table_stops_the_run(harness: Harness) -> None:
    """No row is to blame for a table that lacks a value for everyone."""
    sink = narrow(harness, "ADD mine INT NOT NULL")
    handles = prepared(sink, 1, rows(("+I", 2, 2, "two"), ("+I", 3, 3, "three")))
    with pytest.raises(SinkError, match=r"shop\.rows: .*'mine'"):
        sink.commit(1, handles)
    assert letters(harness) == []


@pytest.mark.parametrize(
    ("code", "skipped"),
    [(1142, False), (1290, False), (1114, False), (1878, False), (1041, False), (1030, False), (1118, True)],
)
def test_what_is_about_the_server_refuses_no_schema_change(code: int, skipped: bool) -> None:
    """As some behaviors skip refused changes."""
    answer = StatementRefused(code, 'Got error 28 - "No space left on device"' if code == 1030 else "no")
    session = Mock(
        spec=SinkSession, flavor="mariadb", version="10.11.19-MariaDB", where="", rows=Mock(return_value=[(0,)])
    )
    session.run.side_effect = answer
    with pytest.raises(SinkError, match=str(code)) as told:
        MySqlSchemas(session, "cdc", RetryPolicy(1)).execute(Statement(ROWS, "ALTER"))
    assert isinstance(told.value, ChangeRefused) == skipped
    assert ("free some space" in told.value.hint) == (code in (1114, 1878, 1030))


def test_a_table_without_transactions_is_refused(harness: Harness) -> None:
    """A batch could be in it by half, whatever the fence says; also one that is altered later."""
    if harness.server.flavor == "oceanbase":
        pytest.skip("OceanBase has one storage engine")
    sink = narrow(harness, "ENGINE = MyISAM")
    with pytest.raises(SinkError, match=r"shop\.rows: its engine MyISAM has no transactions.*ENGINE = InnoDB"):
        sink.commit(1, prepared(sink, 1, rows(("+I", 2, 2, "two"))))
    with pytest.raises(SinkError, match="has no transactions"):
        sink.apply(1, [CreateTable(ROWS, SCHEMA)])


@pytest.mark.parametrize("engine", ["MyISAM", "MEMORY"])
def test_tables_are_created_with_transactions_whatever_the_default_engine(harness: Harness, engine: str) -> None:
    """Also the fence: the number of a batch would be there though the batch was rolled back."""
    if harness.server.flavor == "oceanbase":
        pytest.skip("OceanBase has one storage engine")
    harness.options["sink.metadata-database"] = "own_cdc"
    engines = "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema IN ('shop', 'own_cdc')"
    harness.server.execute("DROP DATABASE IF EXISTS own_cdc", f"SET GLOBAL default_storage_engine = {engine}")
    try:
        sink = created(harness.sink(), ROWS, SCHEMA)
        sink.commit(0, prepared(sink, 0, rows(("+I", 1, 1, "one"))))
        assert harness.server.execute(engines) == (("InnoDB",),)
    finally:
        harness.server.execute("SET GLOBAL default_storage_engine = InnoDB", "DROP DATABASE IF EXISTS own_cdc")


def test_a_column_that_the_server_computes_is_not_written(harness: Harness) -> None:
    """Whichever statement writes the rows: LOAD DATA would ignore the value, INSERT refuse the row."""
    harness.server.execute(
        "CREATE TABLE shop.`rows` (id INT PRIMARY KEY, n INT GENERATED ALWAYS AS (id * 2) STORED, name VARCHAR(40))"
    )
    sink = created(harness.sink(), ROWS, SCHEMA)
    sink.commit(0, prepared(sink, 0, rows(("+I", 4, 8, "four"), ("-U", 4, 8, "four"), ("+U", 4, 8, "five"))))
    assert stored(harness) == [(4, 8, "five")]


def test_a_server_that_is_read_only_is_named_as_such_and_waited_for(harness: Harness) -> None:
    """It is one for a moment in a planned switchover; a new pipeline is told at once."""
    if harness.server.flavor != "mysql":
        pytest.skip("the test's user may write nevertheless")
    sink = narrow(harness)
    handles = prepared(sink, 1, rows(("+I", 2, 2, "two")))
    harness.server.execute("SET GLOBAL super_read_only = ON")
    try:
        with pytest.raises(SinkUnavailable, match=r"read-only.*is it a replica"):
            sink.commit(1, handles)
        with pytest.raises(SinkUnavailable, match=r"read-only.*is it a replica"):
            sink.apply(2, [AddColumn(ROWS, Column("more", DataType.parse("INT")))])
    finally:
        harness.server.execute("SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
    sink.commit(1, handles)
    assert stored(harness)[-1][0] == 2


def test_rows_that_somebody_else_locks_are_waited_for_and_named_with_their_table(harness: Harness) -> None:
    if harness.server.flavor == "oceanbase":
        pytest.skip("it waits for a lock as long as a statement may take")
    harness.options["sink.lock-wait-timeout"] = "1 s"
    sink = narrow(harness)
    handles = prepared(sink, 1, rows(("-U", 1, 1, "one"), ("+U", 1, 2, "two")))
    other = harness.server.connect()
    try:
        other.begin()
        other.cursor().execute("SELECT * FROM shop.`rows` FOR UPDATE")
        with pytest.raises(SinkUnavailable, match=r"^shop\.rows on .*error 1205.*SHOW FULL PROCESSLIST"):
            sink.commit(1, handles)
    finally:
        other.close()
    sink.commit(1, handles)
    assert stored(harness) == [(1, 2, "two")]


def test_a_table_without_a_key_stays_one_where_the_server_makes_keys(harness: Harness) -> None:
    """`sql_generate_invisible_primary_key`: the table of a restart would have another key than the source's."""
    if harness.server.flavor != "mysql":
        pytest.skip("MySQL alone makes such keys")
    harness.server.execute("SET GLOBAL sql_generate_invisible_primary_key = ON")
    try:
        sink = created(harness.sink(), ROWS, KEYLESS)
        sink.commit(0, prepared(sink, 0, rows(("+I", 1, 1, "a"), ("+I", 1, 1, "a"), schema=KEYLESS)))
        harness.sink().apply(1, [CreateTable(ROWS, KEYLESS)])
    finally:
        harness.server.execute("SET GLOBAL sql_generate_invisible_primary_key = OFF")
    assert stored(harness) == [(1, 1, "a"), (1, 1, "a")]


def test_a_row_is_taken_once_what_was_in_its_way_is_refused_too(harness: Harness) -> None:
    """Row 1 takes the value of row 2 first; row 2 stays then, which is in the way of row 1 and not of itself."""
    sink = narrow(harness, "ADD UNIQUE (name)")
    sink.commit(1, prepared(sink, 1, rows(("+I", 2, 2, "two"))))
    changes = rows(("-U", 1, 1, "one"), ("+U", 1, 1, "two"), ("-U", 2, 2, "two"), ("+U", 2, 5, "two"))
    counts = sink.commit(2, prepared(sink, 2, changes))
    assert stored(harness) == [(1, 1, "one"), (2, 5, "two")]
    assert [letter[1] for letter in letters(harness)] == [1]
    assert counts == {"unique-key-taken-dead-letter shop.rows": 1}


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
def test_a_value_that_the_server_changes_without_a_word_is_refused(harness: Harness, keyed: bool) -> None:
    """A number that a DOUBLE with few digits rounds; a text that is the number of a label, or one in another case."""
    schema = replace(SCHEMA, columns=(ID, replace(N, type=DataType.parse("DOUBLE")), NAME))
    schema = replace(schema, primary_key=("id",) if keyed else ())
    key = ", PRIMARY KEY (id)" if keyed else ""
    harness.server.execute(f"CREATE TABLE shop.`rows` (id INT, n DOUBLE(12,2), name ENUM('x','2','1 a','😀'){key})")
    sink = created(harness.sink(), ROWS, schema)
    given = ((1, 0.1, "x"), (2, 1.005, "x"), (3, None, "1"), (4, 1234567890.12, "2"), (5, -1.25, "X"), (6, 2.0, "😀"))
    names = [dict(zip(("id", "n", "name"), values, strict=True)) for values in given]
    counts = sink.commit(0, prepared(sink, 0, block(ROWS, schema, [("+I", row) for row in names])))
    if harness.server.flavor == "oceanbase":  # which does not show labels as they are
        assert [letter[1:3] for letter in letters(harness)] == [(2, "n")]
        return
    assert stored(harness) == [given[0], given[3], given[5]]
    assert [letter[1:3] for letter in letters(harness)] == [(2, "n"), (3, "name"), (5, "name")]
    assert counts == {"not-convertible-dead-letter shop.rows.n": 1, "not-convertible-dead-letter shop.rows.name": 2}
    counts = sink.commit(1, prepared(sink, 1, block(ROWS, schema, [("-D", row) for row in names])))
    assert (stored(harness), counts) == ([], {} if keyed else {"delete-without-row shop.rows": 3})
