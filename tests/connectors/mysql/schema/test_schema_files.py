"""SQL files as table definitions: how scripts are split, and dumps of both servers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from servers import missing

from cdc.errors import SchemaUnknown, SourceError
from cdc.schema import TableId
from cdc_services.installation import find
from cdc_services.server import MySqlServer
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.schema.schema_files import define_from, statements
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.table import table_schema
from connectors.shared.ddl.dialect import DdlDialect

SCRIPT = r"""
-- a dump; with a comment
/* another; one */ USE `shop`;
CREATE TABLE `t;1` (a INT COMMENT 'it''s; "x" \'', b TEXT) # end; here
;
/*!40101 SET NAMES utf8mb4 */;
INSERT INTO t VALUES (1, 'a;b');
DELIMITER ;;
CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END ;;
delimiter ;
CREATE TABLE u (a INT)
"""


def test_a_script_is_split_at_its_delimiters() -> None:
    assert [statement.split("\n")[0].rstrip() for statement in statements(SCRIPT)] == [
        "USE `shop`",
        r"""CREATE TABLE `t;1` (a INT COMMENT 'it''s; "x" \'', b TEXT) # end; here""",
        "/*!40101 SET NAMES utf8mb4 */",
        "INSERT INTO t VALUES (1, 'a;b')",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END",
        "CREATE TABLE u (a INT)",
    ]
    assert list(statements(" ;; \n;")) == []


def defined(path: Path) -> TableDefinitions:
    catalog = TableDefinitions(captures=lambda table: table.database == "shop")
    define_from(path, catalog)
    return catalog


def test_the_database_in_use_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_text(SCRIPT)
    assert set(defined(path).captured) == {TableId("shop", "t;1"), TableId("shop", "u")}


def test_what_is_not_understood_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_text("CREATE TABLE shop.t (a WHATEVER)")
    with pytest.raises(SchemaUnknown, match=r"dump\.sql: a statement is not understood"):
        defined(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"dump\.sql: cannot be read"):
        defined(path)


_DUMP = {"mysql": ("mysqldump", "--ssl-mode=DISABLED"), "mariadb": ("mariadb-dump", "--skip-ssl")}


@pytest.mark.mysql
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_dump_defines_what_the_server_has(flavor: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    installation = find(flavor) or missing(flavor)
    program, without_tls = _DUMP[flavor]
    server: MySqlServer = request.getfixturevalue(f"{flavor}_server")
    database = server.new_database("dump")
    server.execute(
        "CREATE TABLE a (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, e ENUM('x;', 'y''') DEFAULT 'x;', "
        "t TIMESTAMP(3) NULL, d DECIMAL(20,5) NOT NULL DEFAULT 1.5 COMMENT 'semi;colon')",
        "CREATE TABLE b (k VARCHAR(20) CHARACTER SET latin1, j JSON, PRIMARY KEY (k))",
        "CREATE TRIGGER g BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x = 1; SET @y = 2; END",
        "CREATE VIEW v AS SELECT id FROM a",
        database=database,
    )
    command = [*installation.client(program), f"--host={server.host}", f"--port={server.port}"]
    command += [f"--user={server.user}", "--protocol=TCP", "--no-data", without_tls, "--databases", database]
    done = subprocess.run(
        command, env={**os.environ, "MYSQL_PWD": server.password}, capture_output=True, text=True, check=True
    )
    path = tmp_path / "dump.sql"
    path.write_text(done.stdout)
    dialect = DdlDialect.of(f"{server.version}-{flavor}")
    catalog = TableDefinitions(captures=lambda table: table.database == database, dialect=dialect)
    define_from(path, catalog)
    there = read_tables(server.connect(), lambda table: table.database == database)
    assert {table: table_schema(known) for table, known in catalog.captured.items()} == {
        table: table_schema(known) for table, known in there.items()
    }
