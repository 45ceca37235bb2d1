"""Statements that public bug reports about other tools are about, on both servers: through the log, and copied."""

from __future__ import annotations

from pathlib import Path

import comparison
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.usefixtures("files_stay_open")]
LIMITS = Limits(1 << 26, 10**6)

CASES: dict[str, tuple[str, ...]] = {
    "many columns at once": (
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN (a INT DEFAULT 1, b VARCHAR(9) DEFAULT 'x;y'), ADD KEY (a), "
        "ADD CONSTRAINT c CHECK (a < 100)",
        "INSERT INTO t VALUES (2,3,'z')",
        "ALTER TABLE t DROP a, DROP CONSTRAINT c, CHANGE b b TEXT CHARACTER SET latin1 FIRST",
    ),
    "convert charset": (
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b TEXT) CHARACTER SET latin1",
        "INSERT INTO t VALUES (1,'é','ü')",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "INSERT INTO t VALUES (2,'日','本')",
    ),
    "ansi": (
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        'SET sql_mode=\'ANSI_QUOTES\'|ALTER TABLE "t" ADD "x y" VARCHAR(9) DEFAULT \'a"b\'',
        "SET sql_mode='NO_BACKSLASH_ESCAPES'|ALTER TABLE t ADD z VARCHAR(9) DEFAULT '\\'",
        "INSERT INTO t (id) VALUES (2)",
    ),
    "another key": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL)",
        "INSERT INTO t VALUES (1,5),(2,6)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
        "UPDATE t SET id=9",
        "INSERT INTO t VALUES (9,7)",
        "ALTER TABLE t DROP PRIMARY KEY",
        "INSERT INTO t VALUES (9,7)",
        "DELETE FROM t WHERE a=5",
    ),
    "many tables": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1,1),(2,2)",
        "INSERT INTO u SELECT * FROM t",
        "UPDATE t JOIN u USING (id) SET t.a=10, u.a=20 WHERE id=1",
        "DELETE t, u FROM t JOIN u USING (id) WHERE id=2",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (NEW.id, NEW.a)",
        "INSERT INTO t VALUES (5,5)",
    ),
    "a view where a table would be made": (
        "CREATE TABLE t (id INT PRIMARY KEY)|CREATE VIEW u AS SELECT * FROM t",
        "CREATE VIEW v AS SELECT * FROM t|INSERT INTO t VALUES (1)",
        "CREATE TABLE IF NOT EXISTS u (id INT)|CREATE TABLE IF NOT EXISTS v (id INT) SELECT 5 AS id",
        "RENAME TABLE u TO x, t TO u|CREATE VIEW t AS SELECT * FROM u|CREATE TABLE IF NOT EXISTS t (a INT)",
        "CREATE TABLE IF NOT EXISTS x (a INT)|INSERT INTO u VALUES (2)|DROP VIEW x",
        "CREATE TABLE IF NOT EXISTS x (a INT)",
    ),
    "dropped again": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1,1)",
        "DROP TABLE IF EXISTS t, nope",
        "CREATE TABLE t (id VARCHAR(5) PRIMARY KEY, z DATE)",
        "INSERT INTO t VALUES ('x','2020-01-01')",
        "CREATE TABLE IF NOT EXISTS t (q INT)",
        "TRUNCATE t",
        "INSERT INTO t VALUES ('y',NULL)",
    ),
    "savepoints": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "BEGIN|INSERT INTO t VALUES (1,1)|SAVEPOINT s|INSERT INTO t VALUES (2,2)|ROLLBACK TO s|"
        "INSERT INTO t VALUES (3,3)|COMMIT",
        "START TRANSACTION|UPDATE t SET a=5|ROLLBACK",
        "INSERT IGNORE INTO t VALUES (1,9),(4,4)",
    ),
    "exchange partition": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1,1),(20,2)",
        "INSERT INTO u VALUES (5,5)",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
        "INSERT INTO t VALUES (6,6)",
    ),
    "swap columns": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c INT)",
        "INSERT INTO t VALUES (1,2,'x',3)",
        "ALTER TABLE t RENAME COLUMN a TO B, RENAME COLUMN b TO a",
        "INSERT INTO t VALUES (2,4,'y',5)",
        "ALTER TABLE t CHANGE B c BIGINT, CHANGE c a INT, CHANGE a B VARCHAR(9)",
        "INSERT INTO t VALUES (3,6,'z',7)",
        "ALTER TABLE t CHANGE id c INT, CHANGE c id BIGINT",
        "UPDATE t SET a=1",
    ),
    "spaces in keys": (
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES ('a',1),('b ',2),('É',3)",
        "UPDATE t SET a=7 WHERE k='É'",
        "UPDATE t SET k='é' WHERE k='É'",
        "DELETE FROM t WHERE k='b '",
    ),
    "ci keys": (
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES ('a',1),('b',2)",
        "UPDATE t SET k='A', a=5 WHERE k='a'",
        "DELETE FROM t WHERE k='B'",
        "REPLACE INTO t VALUES ('á', 3)",
    ),
    "no key": (
        "CREATE TABLE t (a INT, b TEXT)",
        "INSERT INTO t VALUES (1,'x'),(1,'x'),(NULL,NULL)",
        "DELETE FROM t LIMIT 1",
        "UPDATE t SET b='y' WHERE a=1 LIMIT 1",
        "ALTER TABLE t ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST",
        "INSERT INTO t (a) VALUES (5)",
    ),
    "names": (
        "CREATE TABLE `a b$c` (`i d` INT PRIMARY KEY, `ünï` INT, `select` INT, `a.b` INT)",
        "INSERT INTO `a b$c` VALUES (1,2,3,4)",
        "ALTER TABLE `a b$c` ADD COLUMN `;drop` INT DEFAULT 5 COMMENT 'it''s; DROP TABLE `a b$c`'",
        "INSERT INTO `a b$c` VALUES (2,2,3,4,5)",
    ),
    "comments": (
        "CREATE TABLE t (id INT PRIMARY KEY /* , x INT */, a INT -- , y INT\n, b INT # c\n)",
        "INSERT INTO t VALUES (1,2,3)",
        "/*!50000 ALTER TABLE t ADD c INT DEFAULT 4 */",
        "ALTER /* x */ TABLE t /* y */ DROP /* z */ COLUMN a",
        "INSERT INTO t VALUES (2,3,4)",
    ),
    "instant": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1,2,3)",
        "ALTER TABLE t ADD COLUMN z VARCHAR(5) DEFAULT 'q' FIRST, ALGORITHM=INSTANT",
        "ALTER TABLE t DROP COLUMN a, ALGORITHM=INSTANT",
        "INSERT INTO t VALUES ('w',5,6)",
        "UPDATE t SET b=9 WHERE id=1",
    ),
    "ring of tables": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, b TEXT)",
        "CREATE TABLE v LIKE t",
        "INSERT INTO t VALUES (1,1)",
        "INSERT INTO u VALUES (2,'x')",
        "INSERT INTO v VALUES (3,3)",
        "RENAME TABLE t TO x, u TO t, v TO u, x TO v",
        "INSERT INTO t VALUES (4,'y')",
        "UPDATE u SET a=9",
    ),
    "key changes": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1,1),(2,2),(3,3)",
        "UPDATE t SET id = id + 10 ORDER BY id DESC",
        "UPDATE t SET id = CASE id WHEN 11 THEN 100 WHEN 12 THEN 11 ELSE id END ORDER BY id",
        "REPLACE INTO t VALUES (13, 9)",
        "INSERT INTO t VALUES (13,5) ON DUPLICATE KEY UPDATE a=77",
    ),
    "labels": (
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a,b','c''d','','\\\\x') , s SET('p','q r','x''y'))",
        "INSERT INTO t VALUES (1,'a,b','p,q r'),(2,'c''d','x''y'),(3,'',''),(4,4,7)",
        "ALTER TABLE t MODIFY e ENUM('a,b','c''d','','\\\\x','new')",
        "INSERT INTO t VALUES (5,'new','p')",
    ),
    "recomputed": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, d DECIMAL(5,2), v INT AS (a * 2) VIRTUAL, s INT AS (a + 1) STORED, "
        "x VARCHAR(20) AS (CONCAT(d, '')) STORED)",
        "INSERT INTO t (id, a, d) VALUES (1,1,1.5),(2,5,NULL)",
        "ALTER TABLE t MODIFY v INT AS (a * 3) VIRTUAL",
        "INSERT INTO t (id, a, d) VALUES (3,3,3)",
    ),
    "computed from another type": (
        "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(5,2), x VARCHAR(20) AS (CONCAT(d, '')) STORED)",
        "INSERT INTO t (id, d) VALUES (1,1.5),(2,NULL)",
        "ALTER TABLE t MODIFY d DECIMAL(9,4)",
    ),
    "computed from a default": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 5, v INT AS (a + DEFAULT(a)) VIRTUAL)",
        "INSERT INTO t (id, a) VALUES (1,1)",
        "ALTER TABLE t MODIFY a INT DEFAULT 6",
        "ALTER TABLE t ALTER a SET DEFAULT 7",
    ),
    "computed from now on": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, s INT)",
        "INSERT INTO t VALUES (1,1,9),(2,5,9)",
        "ALTER TABLE t CHANGE s r INT AS (a + 7) STORED",
    ),
    "numbered from now on": (
        "CREATE TABLE t (k INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (0,1),(5,2)",
        "ALTER TABLE t CHANGE k id BIGINT AUTO_INCREMENT",
        "INSERT INTO t (a) VALUES (9)",
    ),
    "nulls numbered from now on": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NULL UNIQUE)",
        "INSERT INTO t VALUES (1,NULL),(2,7)",
        "ALTER TABLE t MODIFY a INT NOT NULL AUTO_INCREMENT",
    ),
    "names with quotes": (
        'CREATE TABLE `k"4` (id INT PRIMARY KEY, `a``b` INT, `c"d` INT, `e\'f` INT, `%s` INT, `{x}` INT)',
        'INSERT INTO `k"4` VALUES (1,2,3,4,5,6)',
        'ALTER TABLE `k"4` RENAME COLUMN `a``b` TO `x``y`, ADD `\\g` INT DEFAULT 7|RENAME TABLE `k"4` TO `t``q`',
        "INSERT INTO `t``q` VALUES (2,2,3,4,5,6,8)",
    ),
    "a column that the log does not know": (
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "SET sql_log_bin=0|ALTER TABLE t ADD a INT DEFAULT 3|SET sql_log_bin=1|ALTER TABLE t ADD b INT AFTER a",
        "INSERT INTO t VALUES (2,3,4)",
    ),
    "geometry": (
        "CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, p POINT)",
        "INSERT INTO t VALUES (1, ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), "
        "ST_GeomFromText('POINT(1 2)')),(2,NULL,NULL)",
    ),
}
"""Each is a session of its own; several statements of one are separated by bars."""


_FAILS = "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; %s; END"

MARIADB_CASES = {
    "sequences": (
        "CREATE SEQUENCE s|CREATE TABLE t (a INT)|CREATE TABLE u (a INT)|INSERT INTO u VALUES (1)|DO NEXTVAL(s)",
        "CREATE TABLE x LIKE s|DO NEXTVAL(x)|RENAME TABLE x TO y|DO NEXTVAL(y)|CREATE OR REPLACE TABLE t LIKE s",
        "CREATE OR REPLACE SEQUENCE u|DO NEXTVAL(u)|DROP SEQUENCE u|CREATE TABLE u (b INT)|INSERT INTO u VALUES (2)",
        "ALTER TABLE y SEQUENCE=0|ALTER TABLE t SEQUENCE=0",
    ),
    "temporary tables that are renamed": (
        "CREATE TABLE t (id INT PRIMARY KEY)|CREATE TABLE u (id INT PRIMARY KEY)|INSERT INTO t VALUES (1)",
        "CREATE TEMPORARY TABLE t (b INT)|RENAME TABLE t TO u|INSERT INTO t VALUES (2)",
        "CREATE TEMPORARY TABLE x (b INT)|RENAME TABLE x TO t|RENAME TABLE IF EXISTS no TO u",
        "CREATE TEMPORARY TABLE t (b INT)|RENAME TABLE t TO x, t TO y|INSERT INTO y VALUES (3)",
        "CREATE TEMPORARY TABLE u (b INT)|RENAME TABLE u TO v|INSERT INTO u VALUES (4)",
        "CREATE TABLE v (a INT)",
    ),
    "tables dropped by what failed": (
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY)|CREATE TABLE v (id INT PRIMARY KEY)|INSERT INTO v VALUES (1)",
        _FAILS % "CREATE OR REPLACE TABLE t (a INT, b INT, FOREIGN KEY (b) REFERENCES nope (a))",
        _FAILS % "CREATE OR REPLACE TABLE u (s DATE, e DATE, PERIOD FOR p (s, e), UNIQUE (s, q WITHOUT OVERLAPS))",
    ),
    "a table made of a partition": (
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) "
        "(PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN (20))",
        "INSERT INTO t VALUES (1),(11)",
        "ALTER TABLE t CONVERT PARTITION q TO TABLE u",
        "INSERT INTO u VALUES (12)",
    ),
    "a table made to a partition": (
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10))",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO u VALUES (12)",
        "ALTER TABLE t CONVERT TABLE u TO PARTITION q VALUES LESS THAN (20)",
        "INSERT INTO t VALUES (13)",
    ),
}


@pytest.mark.parametrize("name", MARIADB_CASES)
def test_the_sink_ends_equal_with_what_only_mariadb_has(mariadb_server: MySqlServer, tmp_path: Path, name: str) -> None:
    _ends_equal(mariadb_server, tmp_path, MARIADB_CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_sink_ends_equal(any_server: MySqlServer, tmp_path: Path, name: str) -> None:
    _ends_equal(any_server, tmp_path, CASES[name])


def test_a_table_made_like_one_that_is_not_captured(any_server: MySqlServer, tmp_path: Path) -> None:
    template = any_server.new_database("template")
    any_server.execute("CREATE TABLE u (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x')", database=template)
    made = f"CREATE TABLE u LIKE {template}.u|INSERT INTO u (id) VALUES (1)"
    _ends_equal(any_server, tmp_path, ("CREATE TABLE t (id INT PRIMARY KEY)", made))


def _ends_equal(server: MySqlServer, tmp_path: Path, sessions: tuple[str, ...]) -> None:
    database = server.new_database("odd")
    tables = rf"{database}.\.*"
    first, *others = sessions
    server.execute(*first.split("|"), database=database)
    followed = DirectRuns(mysql_pipeline(tmp_path / "followed", server, tables))
    followed.catch_up(LIMITS)
    for session in others:
        server.execute(*session.split("|"), database=database)
    copied = DirectRuns(mysql_pipeline(tmp_path / "copied", server, tables))
    for runs in (followed, copied):
        runs.catch_up(LIMITS)
        runs.catch_up(LIMITS)  # with what the first one has asked to be copied
        assert comparison.differences(server, runs.pipeline, [database]) == []
