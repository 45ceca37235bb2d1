"""Schema changes of tables with rows, on both servers, by sessions that are strict and not: the sink ends equal.

Nothing stops, nobody finds an emptied table where the rows have a key, and a change that is certain copies nothing.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import comparison
import duckdb
import load_comparison
import pymysql
import pytest
from cdc_process import Pipeline, mysql_pipeline, present_end
from conversions import CONVERSIONS, Conversion
from direct import DirectRuns
from load_pipeline import KINDS, LoadPipeline, finished, own_standin
from tiers import EXHAUSTIVE

from cdc import events as on
from cdc.errors import UnsupportedChange
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import TableId, TruncateTable
from cdc.sink_columns import Coercion
from cdc.source import Limits
from cdc.spec.model import RouteRule
from cdc.state.store import LocalStore
from cdc.tables.requests import Mailbox, RequestKind
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]
LIMITS = Limits(1 << 26, 10**6)

SILENT: tuple[Conversion, ...] = (
    ("BIT(3)", "BIT(12)", ("5", "0")),
    ("INT(6) ZEROFILL", "VARCHAR(20)", ("12", "999999")),
    ("YEAR", "VARCHAR(10)", ("0", "2026")),
    ("DATETIME(6)", "DATETIME(2)", ("'2026-01-01 10:00:00.999999'", "'2026-01-01 10:00:00.005'")),
    ("TIME(6)", "TIME", ("'10:11:12.999999'", "'-10:11:12.5'")),
    ("INT", "INT NOT NULL", ("7",)),
    ("VARCHAR(9)", "VARCHAR(9) NOT NULL", ("'a'",)),
    ("ENUM('a','b')", "ENUM('b','c','a')", ("'a'", "'b'")),
    ("FLOAT", "FLOAT(5,2)", ("1.23456", "999")),
    ("TEXT", "TINYTEXT", ("REPEAT('a', 300)", "'b'")),
    ("MEDIUMBLOB", "TINYBLOB", ("REPEAT('a', 300)",)),
    ("VARCHAR(300)", "TINYTEXT", ("REPEAT('a', 300)",)),
    ("VARCHAR(20) CHARACTER SET utf8mb4", "VARCHAR(20) CHARACTER SET latin1", ("'é'", "'日本'")),
)
ALL = (*CONVERSIONS, *SILENT)
SURE = {("INT", "VARCHAR(20)"), ("INT", "DECIMAL(20,3)"), ("FLOAT", "DOUBLE"), ("DATE", "DATETIME")}
"""Changes that no sink refuses."""
IN_STANDINS = tuple(pair for pair in ALL if pair[:2] != ("DECIMAL(30,30)", "VARCHAR(40)"))
"""The stand-ins keep rows in DuckDB, whose text of a DECIMAL(30, 30) has no zero before the point; servers write it."""


def filled(server: MySqlServer, conversions: tuple[Conversion, ...], key: str = "PRIMARY KEY") -> str:
    database = server.new_database("uncertain")
    for number, (before, _, values) in enumerate(conversions):
        rows = (f"INSERT INTO t{number:02} (c) VALUES ({value})" for value in (*values, "NULL"))
        create = f"CREATE TABLE t{number:02} (id INT AUTO_INCREMENT {key}, c {before} NULL)"
        server.execute("SET sql_mode = ''", create, *rows, database=database)
    return database


def altered(server: MySqlServer, database: str, statements: list[str], sql_mode: str) -> int:
    """How many the server took."""
    taken = 0
    for statement in statements:
        try:
            server.execute(f"SET sql_mode = '{sql_mode}', time_zone = '+05:00'", statement, database=database)
        except pymysql.MySQLError:
            continue
        taken += 1
    return taken


def modified(conversions: tuple[Conversion, ...]) -> list[str]:
    return [f"ALTER TABLE t{number:02} MODIFY COLUMN c {after}" for number, (_, after, _) in enumerate(conversions)]


@pytest.mark.slow
@pytest.mark.parametrize("sql_mode", ["", "STRICT_TRANS_TABLES"], ids=["lax", "strict"])
def test_every_change_of_type_ends_equal(any_server: MySqlServer, tmp_path: Path, sql_mode: str) -> None:
    database = filled(any_server, ALL)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
    assert altered(any_server, database, modified(ALL), sql_mode) > len(ALL) // 2
    run = runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
    assert not [change for change in run.changes if isinstance(change, TruncateTable)]


@pytest.mark.slow
@pytest.mark.parametrize("every_start", [False, pytest.param(True, marks=EXHAUSTIVE)])
def test_every_change_of_type_ends_equal_or_is_told_where_nothing_is_copied(
    any_server: MySqlServer, tmp_path: Path, every_start: bool
) -> None:
    """By a session that is not strict. What the sink refuses is left out, and told with the table too. `make test`
    begins where the tables are empty in the sink, and after their first rows."""
    conversions = (*ALL, ("VARCHAR(20)", "VARCHAR(10) NOT NULL", ("'a'",)))
    starts = {"rows first": present_end(any_server)}
    starts["earliest"] = {"scan__startup__mode": "earliest-offset"}
    if every_start:
        starts["all at once"] = starts["rows first"]
        starts["timestamp"] = {
            "scan__startup__mode": "timestamp",
            "scan__startup__timestamp_millis": int(time.time() * 1000),
        }
    database = filled(any_server, conversions)
    tables = rf"{database}.\.*"
    every = {name: mysql_pipeline(tmp_path / name, any_server, tables, **options) for name, options in starts.items()}
    files = {"type": "binlog-files", "path": f"{any_server.execute('SELECT @@log_bin_basename')[0][0]}.0*"}
    every["files"] = Pipeline(tmp_path / "files", {**files, "tables": tables})
    runs = {name: DirectRuns(pipeline) for name, pipeline in every.items()}
    middle = Middle(RouteTable(()), Policy(Behavior.TRY_EVOLVE), Coercion("null"))
    runs["rows first"].catch_up(LIMITS, middle=middle)
    altered(any_server, database, [*modified(ALL), f"ALTER TABLE t{len(ALL)} CHANGE c s VARCHAR(10) NOT NULL"], "")
    carried_out = {f"{database}.t{number:02}" for number, pair in enumerate(ALL) if pair[:2] in SURE}
    assert len(carried_out) == len(SURE)
    for name, each in runs.items():
        run = each.catch_up(LIMITS, middle=middle)
        told = set(re.findall(rf"{database}\.t\d\d", " ".join((*each.notices, *run.reasons))))
        assert (name, comparison.differences(any_server, each.pipeline, [database], but=told)) == (name, [])
        assert (name, told & carried_out) == (name, set())


@pytest.mark.slow
@pytest.mark.parametrize("conversions", [IN_STANDINS[::3], pytest.param(IN_STANDINS, marks=EXHAUSTIVE)], ids=len)
@pytest.mark.parametrize("kind", KINDS)
def test_every_change_of_type_ends_equal_in_servers(
    kind: str, conversions: tuple[Conversion, ...], mysql_server: MySqlServer, tmp_path: Path
) -> None:
    database = filled(mysql_server, conversions)
    with own_standin(kind) as standin:
        made = mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*")
        runs = DirectRuns(LoadPipeline(made.folder, made.source, made.password, standin=standin))
        runs.catch_up(LIMITS)
        altered(mysql_server, database, modified(conversions), "")
        run = runs.catch_up(LIMITS)
        finished(standin)
        assert load_comparison.differences(mysql_server, standin, [database]) == []
    assert not [change for change in run.changes if isinstance(change, TruncateTable)]


@pytest.mark.slow
def test_tables_without_a_key_end_equal(any_server: MySqlServer, tmp_path: Path) -> None:
    """Copied beside and swapped, whatever the change was; what each change makes of a value is tried with keys."""
    database = filled(any_server, SILENT, "UNIQUE")
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    altered(any_server, database, modified(SILENT), "")
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


STATEMENTS = {
    "a new AUTO_INCREMENT key": ("CREATE TABLE t (n INT)", "ALTER TABLE t ADD id INT AUTO_INCREMENT PRIMARY KEY"),
    "a generated column": ("CREATE TABLE t (n INT PRIMARY KEY)", "ALTER TABLE t ADD g INT AS (n * 2) STORED"),
    "an expression default": ("CREATE TABLE t (n INT PRIMARY KEY)", "ALTER TABLE t ADD g INT DEFAULT (7 * 6)"),
    "a default of now": (
        "CREATE TABLE t (n INT PRIMARY KEY)",
        "ALTER TABLE t ADD g DATETIME DEFAULT NOW()",
    ),
    "constants that servers read their own way": (
        "CREATE TABLE t (n INT PRIMARY KEY)",
        "ALTER TABLE t ADD a TIME(2) DEFAULT '-1:2:3.456', ADD b TIMESTAMP DEFAULT '2026-01-01 10:00:00', "
        "ADD c FLOAT DEFAULT 1.23456789, ADD d DATETIME DEFAULT '2026-01-01 10:00:00.9', ADD e BIT(12) DEFAULT 5",
    ),
    "a key's type": ("CREATE TABLE t (n VARCHAR(20) PRIMARY KEY)", "ALTER TABLE t MODIFY n INT"),
    "a key over NULLs": ("CREATE TABLE t (n INT, m INT)", "ALTER TABLE t MODIFY m INT NOT NULL, ADD PRIMARY KEY (n)"),
    "a column and a new name": (
        "CREATE TABLE t (n INT PRIMARY KEY, m VARCHAR(9))",
        "ALTER TABLE t CHANGE m renamed VARCHAR(1) NOT NULL",
    ),
    "a dropped partition": (
        "CREATE TABLE t (n INT PRIMARY KEY) PARTITION BY RANGE (n) (PARTITION p VALUES LESS THAN (2), "
        "PARTITION q VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE t DROP PARTITION p",
    ),
    "an exchanged partition": (
        "CREATE TABLE t (n INT PRIMARY KEY) PARTITION BY RANGE (n) (PARTITION p VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE other (n INT PRIMARY KEY); INSERT INTO other VALUES (77); "
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other",
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_the_server_computed_is_copied(any_server: MySqlServer, tmp_path: Path, name: str) -> None:
    create, statements = STATEMENTS[name]
    database = any_server.new_database("uncertain")
    insert = "INSERT INTO t (n) VALUES (1), (2), (3)"
    any_server.execute(create, insert, database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    changed = altered(any_server, database, statements.split("; "), "")
    assert changed == len(statements.split("; "))
    any_server.execute("DELETE FROM t LIMIT 1", database=database)
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


def test_rows_that_were_rolled_back_after_they_were_delivered_are_copied(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    database = any_server.new_database("uncertain")
    create = "CREATE TABLE t (n INT PRIMARY KEY)"
    any_server.execute(create, "INSERT INTO t VALUES (1), (2), (3)", database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute(
        "XA START 'f'", "INSERT INTO t VALUES (4)", "DELETE FROM t WHERE n = 2", "XA END 'f'", "XA PREPARE 'f'",
        "XA ROLLBACK 'f'", "INSERT INTO t VALUES (5)", database=database,
    )  # fmt: skip
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


@pytest.mark.parametrize("key", ["PRIMARY KEY", "UNIQUE"])
def test_what_only_the_sink_has_goes_with_a_copy_that_is_asked_for(
    mysql_server: MySqlServer, tmp_path: Path, key: str
) -> None:
    database = filled(mysql_server, (("INT", "", ("1", "2")),), key)
    pipeline = mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*")
    runs = DirectRuns(pipeline)
    runs.catch_up(LIMITS)
    with duckdb.connect(str(pipeline.database)) as connection:
        connection.execute(f"INSERT INTO {database}.t00 VALUES (77, 7); UPDATE {database}.t00 SET c = 5 WHERE id = 1")
    assert comparison.differences(mysql_server, pipeline, [database]) != []
    Mailbox(LocalStore(pipeline.state / "engine")).add(TableId(database, "t00"), RequestKind.SNAPSHOT)
    run = runs.catch_up(LIMITS)
    assert run.events == [on.SnapshotBegun(TableId(database, "t00")), on.SnapshotDone(TableId(database, "t00"))]
    assert comparison.differences(mysql_server, pipeline, [database]) == []


CERTAIN = (
    "ADD a INT", "ADD b INT NOT NULL DEFAULT 7", "MODIFY c BIGINT", "RENAME COLUMN c TO d", "COMMENT 'new'",
    "ADD INDEX (d)", "MODIFY d BIGINT COMMENT 'c'", "ADD e VARCHAR(9) DEFAULT 'x'", "MODIFY e VARCHAR(99)", "DROP e",
)  # fmt: skip


def test_everyday_changes_copy_nothing(any_server: MySqlServer, tmp_path: Path) -> None:
    database = filled(any_server, (("INT", "", ("1", "2")),))
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    for change in CERTAIN:
        any_server.execute(f"ALTER TABLE t00 {change}", database=database)
    run = runs.catch_up(LIMITS)
    assert run.inserts == run.updates == 0
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


def test_a_table_that_is_too_large_stops_and_names_the_way_out(any_server: MySqlServer, tmp_path: Path) -> None:
    database = filled(any_server, (("INT", "", ("1", "2")),))
    any_server.execute("ANALYZE TABLE t00", database=database)
    options = {"schema-change.copy-max-rows": 2}
    pipeline = mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", **options)
    runs = DirectRuns(pipeline)
    runs.catch_up(LIMITS)
    any_server.execute("ALTER TABLE t00 ADD g INT AS (c * 2) STORED", database=database)
    with pytest.raises(UnsupportedChange, match="has to be re-snapshotted") as caught:
        runs.catch_up(LIMITS)
    assert "schema-change.copy-max-rows" in caught.value.hint
    pipeline.source["schema-change.copy-max-rows"] = 1000
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_rows_that_go_with_a_partition_go_from_a_table_that_others_go_to(
    mysql_server: MySqlServer, tmp_path: Path, key: str
) -> None:
    database = mysql_server.new_database("uncertain")
    parts = "PARTITION BY RANGE (n) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN MAXVALUE)"
    mysql_server.execute(
        f"CREATE TABLE a (n INT {key}) {parts}", f"CREATE TABLE b (n INT {key})",
        "INSERT INTO a VALUES (1), (6)", "INSERT INTO b VALUES (11), (12)", database=database,
    )  # fmt: skip
    runs = DirectRuns(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"))
    rule = RouteRule(source_table=rf"{database}.\.*", sink_table="ods.both")
    middle = Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))
    runs.catch_up(LIMITS, middle=middle)
    mysql_server.execute(
        "ALTER TABLE a DROP PARTITION p", "INSERT INTO a VALUES (7)", "DELETE FROM b WHERE n = 12", database=database
    )
    runs.catch_up(LIMITS, middle=middle)
    runs.catch_up(LIMITS, middle=middle)
    mysql_server.execute("INSERT INTO a VALUES (8)", "INSERT INTO b VALUES (13)", database=database)
    runs.catch_up(LIMITS, middle=middle)
    with duckdb.connect(str(runs.pipeline.database)) as connection:
        assert connection.sql("SELECT n FROM ods.both ORDER BY n").fetchall() == [(6,), (7,), (8,), (11,), (13,)]
        names = connection.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'ods'").fetchall()
        assert names == [("both",)]
