"""Records tests/fixtures/rows/*: `python tests/connectors/mysql/rows/record_rows.py`. Needs both servers.

Per server a binary log with one table of every type, and a JSON file: the table's columns, and its rows as SELECT
answered them when the log was written. Of a server of another version, which runs already and has an empty log,
`record_rows.py mysql-5.5 mysql PORT DATADIR` records the types that it knows.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pymysql
from decoded import definitions
from selected import selected, shown
from test_decoder_types import COMMON, MARIADB, MYSQL, Draw, statements

from cdc.schema import TableId
from cdc_services.installation import find
from cdc_services.server import MySqlServer, StartedServer

FIXTURES = Path(__file__).parents[3] / "fixtures" / "rows"
TABLE = TableId("recorded", "t")


def record(name: str, server: MySqlServer, datadir: Path, rows: int) -> None:
    types = {**COMMON, **(MARIADB if server.flavor == "mariadb" else MYSQL)}
    known = {text: draw for text, draw in types.items() if _is_known(server, text, draw)}
    server.execute(f"CREATE DATABASE {TABLE.database} CHARACTER SET utf8mb4")
    quiet = ["SET SESSION binlog_annotate_row_events = OFF"] if server.flavor == "mariadb" else []
    server.execute(*quiet, *statements(known, seed=3, rows=rows), database=TABLE.database)
    table = definitions(server, TABLE.database)[TABLE]
    found = selected(server, table, "id")
    server.execute("FLUSH LOGS")
    shutil.copyfile(datadir / "binlog.000001", FIXTURES / f"{name}.binlog")
    columns = [{**asdict(column), "rows": [shown(row[i]) for row in found]} for i, column in enumerate(table.columns)]
    lines = ",\n".join(json.dumps(column, ensure_ascii=False) for column in columns)
    (FIXTURES / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _is_known(server: MySqlServer, text: str, draw: Draw) -> bool:
    try:
        server.execute(
            "SET SESSION sql_log_bin = 0", "DROP DATABASE IF EXISTS tried", "CREATE DATABASE tried",
            f"CREATE TABLE tried.t (c {text})", f"INSERT INTO tried.t VALUES ({draw(random.Random(1))})",
            "DROP DATABASE tried",
        )  # fmt: skip
    except pymysql.err.MySQLError:
        return False
    return True


def _record_own(flavor: str) -> None:
    installation = find(flavor)
    if installation is None:
        raise SystemExit(f"no {flavor}: run `make services`")
    server = StartedServer(installation, ())
    try:
        record(flavor, server, server.datadir, rows=9)
    finally:
        server.close()


if __name__ == "__main__":
    FIXTURES.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:]:
        name, flavor, port, datadir = sys.argv[1:]
        record(name, MySqlServer("127.0.0.1", int(port), "root", "", flavor, ""), Path(datadir), rows=4)
    else:
        _record_own("mysql")
        _record_own("mariadb")
