"""Changes that stop a pipeline which only reads a log: the hint of the error is followed, and the sink is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_runner import CliRunner
from running import ShortPipeline

from cdc.cli import app
from cdc.errors import ChangeRefused, UnsupportedChange
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql


def exchange(pipeline: ShortPipeline) -> None:
    pipeline.source(
        "CREATE TABLE elsewhere (id INT PRIMARY KEY, a INT)",
        "INSERT INTO elsewhere VALUES (7, 7)",
        "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (100))",
        "ALTER TABLE t EXCHANGE PARTITION low WITH TABLE elsewhere",
    )


def version(pipeline: ShortPipeline) -> None:
    pipeline.source("ALTER TABLE t ADD SYSTEM VERSIONING")


def roll_back(pipeline: ShortPipeline) -> None:
    pipeline.source("XA START 'x'", "INSERT INTO t VALUES (3, 3)", "XA END 'x'", "XA PREPARE 'x'")
    pipeline.source("XA ROLLBACK 'x'")


def alter_unlogged(pipeline: ShortPipeline) -> None:
    pipeline.source("SET sql_log_bin = 0", "ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT DEFAULT 5")


def narrow(pipeline: ShortPipeline) -> None:
    pipeline.source("INSERT INTO t VALUES (5, -5)", "SET sql_mode = ''", "ALTER TABLE t MODIFY a TINYINT UNSIGNED")


@pytest.mark.parametrize(
    ("flavor", "change"),
    [
        ("mysql", exchange),
        ("mysql", roll_back),
        ("mysql", alter_unlogged),
        ("mysql", narrow),
        ("mariadb", version),
        ("mariadb", exchange),
    ],
)
def test_a_resync_lets_it_go_on(
    flavor: str,
    change: Callable[[ShortPipeline], None],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.mysql.follow.unlogged.CONFIRM_S", 0.1)
    server: MySqlServer = request.getfixturevalue(f"{flavor}_server")
    pipeline = ShortPipeline(server, tmp_path, server.new_database("refused"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    text = pipeline.file.read_text() + "pipeline:\n  schema.change.behavior: evolve\n"
    pipeline.file.write_text(text.replace("sink:\n", "  scan.startup.mode: earliest-offset\nsink:\n", 1))
    pipeline.run()
    change(pipeline)
    pipeline.source("UPDATE t SET id = 20 WHERE id = 2", "INSERT INTO t (id) VALUES (9)")
    with pytest.raises((UnsupportedChange, ChangeRefused)) as refused:
        pipeline.run()
    commands = ("`cdc resync` on the table", f"`cdc resync FILE {pipeline.database}.t`")
    assert any(command in refused.value.hint for command in commands)
    for table in ("t", "elsewhere") if change is exchange else ("t",):
        assert f"{pipeline.database}.{table}" in str(refused.value) or "not known" in str(refused.value)
        done = CliRunner().invoke(app, ["resync", str(pipeline.file), f"{pipeline.database}.{table}"])
        assert done.exit_code == 0, done.output
    pipeline.run()
    (report,) = [each for each in pipeline.verify().tables if each.table.endswith(".t")]
    assert str(report.state) == "equal", report
