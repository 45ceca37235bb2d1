"""`cdc doctor` against real servers, as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_runner import CliRunner
from hostile_mysql import Visit, hostile
from running import ShortPipeline

from cdc.cli import app
from cdc.finding import Level
from cdc.process.disk import examine_folder
from cdc_services.server import MySqlServer


def server_of(server: Any) -> MySqlServer:
    """The server's address without what its end takes."""
    return MySqlServer(server.host, server.port, server.user, server.password, server.flavor, server.version)


def found(pipeline: ShortPipeline) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings by part and subject."""
    done = CliRunner().invoke(app, ["doctor", str(pipeline.file), "--json"])
    told: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        told.setdefault(f"{finding['part']} {finding['subject']}", []).append(finding)
    return done.exit_code, told


@pytest.mark.mysql
def test_a_sound_server_has_no_error_and_tables_without_a_key_are_named(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    pipeline = ShortPipeline(any_server, tmp_path, any_server.new_database("doctor"))
    pipeline.source(
        "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (x INT)", "CREATE TABLE c (x INT) ENGINE=MyISAM"
    )
    code, told = found(pipeline)
    assert code == 0
    assert told["source tables"][0]["message"] == "3 match and can be read"
    assert told["source keys"][0]["message"] == f"2 without a primary key: {pipeline.database}.b, {pipeline.database}.c"
    (engine,) = told["source engines"]
    assert engine["fix"] == f"run on the server: ALTER TABLE `{pipeline.database}`.`c` ENGINE=InnoDB"
    assert {"source server", "source privileges", "source clock", "source binlog retention"} <= told.keys()
    assert {
        "sink version",
        "sink disk",
        "machine Java",
        "machine Python packages",
        "machine state directory",
    } <= told.keys()
    pipeline.source("DROP TABLE c")
    pipeline.run()
    code, told = found(pipeline)
    assert code == 0
    assert told["source position"][0]["level"] == "ok"
    assert "committed up to batch" in told["machine state directory"][-1]["message"]


@pytest.mark.mysql
def test_a_missing_privilege_and_a_wrong_setting_come_with_what_to_run(server_factory: Any, tmp_path: Path) -> None:
    server = server_factory(
        "mysql", extra_args=["--binlog-row-image=MINIMAL", "--binlog-expire-logs-seconds=3600", "--gtid-mode=OFF"]
    )
    database = server.new_database("doctor")
    server.execute("CREATE TABLE a (id INT PRIMARY KEY)", database=database)
    server.execute("CREATE USER 'reader'@'%' IDENTIFIED BY 'secret'", f"GRANT SELECT ON {database}.* TO 'reader'@'%'")
    pipeline = ShortPipeline(server, tmp_path, database)
    code, told = found(pipeline)
    assert code == 3
    assert told["source server settings"][0]["fix"].startswith(
        "run on the server: SET PERSIST binlog_row_image = 'FULL'"
    )
    assert (
        told["source binlog retention"][0]["fix"]
        == "run on the server: SET PERSIST binlog_expire_logs_seconds = 604800"
    )
    assert told["source GTIDs"][0]["level"] == "warning"
    code, told = found(ShortPipeline(replace(server_of(server), user="reader", password="secret"), tmp_path, database))
    assert code == 3
    fixes = [finding["fix"] for each in told.values() for finding in each]
    assert any("REPLICATION CLIENT" in fix and "'reader'" in fix for fix in fixes)
    assert "secret" not in json.dumps(told)


def test_a_server_that_is_away_is_a_finding_and_the_rest_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.doctor.run.examine_machine", lambda root: [])  # its errors decide the exit code, too
    server = MySqlServer("127.0.0.1", 1, "root", "x", "mysql", "9")
    pipeline = ShortPipeline(server, tmp_path, "shop", "pipeline:\n  name: p\n")
    pipeline.file.write_text(pipeline.file.read_text().replace("sink:", "  connect.max-retries: 0\nsink:", 1))
    code, told = found(pipeline)
    assert code == 3
    assert told["source connection"][0]["level"] == "error"
    assert told["sink version"][0]["level"] == "ok"


def test_a_place_without_room_or_that_is_no_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert [finding.level for finding in examine_folder("disk", tmp_path / "new" / "folder")] == [Level.OK]
    assert [finding.message for finding in examine_folder("disk", tmp_path / "file" / "x")] == [
        f"{tmp_path / 'file'} is not a folder"
    ]
    for free, level in ((500 << 20, Level.WARNING), (1 << 20, Level.ERROR)):
        monkeypatch.setattr(
            "cdc.process.disk.shutil.disk_usage", lambda path, free=free: type("Usage", (), {"free": free})
        )
        (finding,) = examine_folder("disk", tmp_path)
        assert (finding.level, bool(finding.fix)) == (level, True)


def answers_ok_to_everything(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, b"\0\0\0\2\0\0\0")
    while visit.receive():
        visit.send(1, b"\0\0\0\2\0\0\0")


@pytest.mark.parametrize("command", ["doctor", "plan", "run"])
def test_a_server_that_answers_ok_to_every_query_is_no_mysql_server(tmp_path: Path, command: str) -> None:
    with hostile(answers_ok_to_everything) as server:
        known = MySqlServer("127.0.0.1", server.port, "root", "x", "mysql", "9")
        pipeline = ShortPipeline(known, tmp_path, "shop", "pipeline:\n  name: p\n")
        done = CliRunner().invoke(app, [command, str(pipeline.file)])
    told = done.output if command == "doctor" else str(done.exception)
    assert "its answer is not that of MySQL or MariaDB" in told
    assert "KeyError" not in told
    assert (done.exit_code if command == "doctor" else getattr(done.exception, "exit_code", 0)) == 3


@pytest.mark.mysql
def test_a_missing_privilege_hides_no_other_finding(server_factory: Any, tmp_path: Path) -> None:
    server = server_factory("mysql", extra_args=["--binlog-row-image=MINIMAL"])
    database = server.new_database("doctor")
    server.execute("CREATE TABLE a (x INT)", "CREATE TABLE b (id INT PRIMARY KEY)", database=database)
    server.execute("CREATE USER 'less'@'%' IDENTIFIED BY 'secret'", f"GRANT SELECT ON {database}.* TO 'less'@'%'")
    code, told = found(ShortPipeline(replace(server_of(server), user="less", password="secret"), tmp_path, database))
    assert code == 3
    assert any("REPLICATION CLIENT" in finding["fix"] for finding in told["source privileges"])
    assert "binlog_row_image" in told["source server settings"][0]["fix"]
    assert told["source tables"][0]["message"] == "2 match and can be read"
    assert f"{database}.a" in told["source keys"][0]["message"]
    assert "source clock" in told
