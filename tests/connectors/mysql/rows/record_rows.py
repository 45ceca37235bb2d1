"""Records tests/fixtures/rows/*: `python tests/connectors/mysql/rows/record_rows.py`. Needs both servers.

Per server a binary log with one table of every type, and a JSON file: the table's columns, and its rows as SELECT
answered them when the log was written.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from decoded import definitions
from selected import selected, shown
from test_decoder_types import COMMON, MARIADB, MYSQL, statements

from cdc.schema import TableId
from cdc_services.installation import find
from cdc_services.server import StartedServer

FIXTURES = Path(__file__).parents[3] / "fixtures" / "rows"
TABLE = TableId("recorded", "t")


def record(flavor: str) -> None:
    installation = find(flavor)
    if installation is None:
        raise SystemExit(f"no {flavor}: run `make services`")
    server = StartedServer(installation, ())
    try:
        types = {**COMMON, **(MARIADB if flavor == "mariadb" else MYSQL)}
        server.execute(f"CREATE DATABASE {TABLE.database} CHARACTER SET utf8mb4")
        quiet = ["SET SESSION binlog_annotate_row_events = OFF"] if flavor == "mariadb" else []
        server.execute(*quiet, *statements(types, seed=3, rows=9), database=TABLE.database)
        table = definitions(server, TABLE.database)[TABLE]
        rows = selected(server, table, "id")
        server.execute("FLUSH LOGS")
        shutil.copyfile(server.datadir / "binlog.000001", FIXTURES / f"{flavor}.binlog")
    finally:
        server.close()
    columns = [{**asdict(column), "rows": [shown(row[i]) for row in rows]} for i, column in enumerate(table.columns)]
    lines = ",\n".join(json.dumps(column, ensure_ascii=False) for column in columns)
    (FIXTURES / f"{flavor}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    FIXTURES.mkdir(parents=True, exist_ok=True)
    record("mysql")
    record("mariadb")
