"""The statements of gh-ost and pt-online-schema-change on a real server: the sink ends equal, re-snapshotted or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepping import Steps

from cdc.schema import AddColumn, CreateShadow, SwapShadow, TableId
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

ROWS = 50
COLUMNS = ("id", "note", "seen")


def same(steps: Steps, server: MySqlServer, table: TableId, columns: tuple[str, ...]) -> None:
    expected = server.execute(f"SELECT {', '.join(columns)} FROM {table.table} ORDER BY id", database=table.database)
    found = sorted(tuple(row[name] for name in columns) for row in steps.sink.rows(table))
    assert found == [tuple(row) for row in expected]


def gh_ost(server: MySqlServer, database: str) -> None:
    server.execute(
        f"CREATE /* gh-ost */ TABLE `{database}`.`_t_gho` LIKE `{database}`.`t`",
        f"ALTER /* gh-ost */ TABLE `{database}`.`_t_gho` ADD COLUMN seen INT NOT NULL DEFAULT 7",
        "INSERT /* gh-ost */ IGNORE INTO _t_gho (id, note) SELECT id, note FROM t LOCK IN SHARE MODE",
        "UPDATE t SET note = 'during' WHERE id = 3",
        "REPLACE /* gh-ost */ INTO _t_gho (id, note) VALUES (3, 'during')",
        f"RENAME /* gh-ost */ TABLE `{database}`.`t` TO `_t_del`, `{database}`.`_t_gho` TO `{database}`.`t`",
        "DROP TABLE _t_del",
        f"INSERT INTO t VALUES ({ROWS}, 'after', 8)",
        database=database,
    )


def pt_osc(server: MySqlServer, database: str) -> None:
    ((_, create),) = server.execute("SHOW CREATE TABLE t", database=database)
    new = f"`{database}`.`_t_new`"
    trigger = f"`pt_osc_{database}_t_ins` AFTER INSERT ON `{database}`.`t` FOR EACH ROW"
    server.execute(
        create.replace("`t`", new, 1),
        f"ALTER TABLE {new} CHANGE note remark VARCHAR(40)",
        f"CREATE TRIGGER {trigger} REPLACE INTO {new} (id, remark, seen) VALUES (NEW.id, NEW.note, NEW.seen)",
        f"INSERT LOW_PRIORITY IGNORE INTO {new} (id, remark, seen) SELECT id, note, seen FROM t LOCK IN SHARE MODE",
        f"INSERT INTO t VALUES ({ROWS + 1}, 'by trigger', 9)",
        f"RENAME TABLE `{database}`.`t` TO `{database}`.`_t_old`, {new} TO `{database}`.`t`",
        "DROP TABLE IF EXISTS _t_old",
        f"INSERT INTO t VALUES ({ROWS + 2}, 'after', 9)",
        database=database,
    )


def test_tables_keep_their_rows_or_are_copied_beside_them(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("online")
    table = TableId(database, "t")
    values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    create = "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40))"
    any_server.execute(create, f"INSERT INTO t VALUES {values}", database=database)
    steps = Steps(any_server, database, tmp_path, **{"scan.parse.online.schema.changes.enabled": True})
    steps.finish(any_server)
    steps.changes.clear()
    gh_ost(any_server, database)
    steps.finish(any_server)
    assert [type(change) for change in steps.changes] == [AddColumn]
    same(steps, any_server, table, COLUMNS)
    assert steps.inserts == ROWS + 1
    assert steps.sink.problems == []

    steps.changes.clear()
    pt_osc(any_server, database)
    steps.finish(any_server)
    assert {CreateShadow, SwapShadow} <= {type(change) for change in steps.changes}
    same(steps, any_server, table, ("id", "remark", "seen"))
    assert steps.sink.tables == {table}
