"""`cdc import`: positions of other tools as they write them, and a pipeline that goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_runner import CliRunner
from running import ShortPipeline
from together import together

from cdc.cli import app
from cdc.errors import SourceError
from cdc_services.server import MySqlServer
from connectors.mysql.follow.foreign import DeliveredPart, ForeignPosition, parse_position
from connectors.mysql.server.positions import LogPosition

AT = LogPosition("binlog.000012", 4711)
CANAL = (
    '{"clientDatas":[{"clientIdentity":{"clientId":1001,"destination":"shop","filter":""},"cursor":{"identity":'
    '{"slaveId":-1,"sourceAddress":{"address":"db","port":3306}},"postion":{"gtid":"","included":false,'
    '"journalName":"binlog.000012","position":4711,"serverId":1,"timestamp":1700000000000}}}],"destination":"shop"}'
)
MAXWELL = """*************************** 1. row ***************************
          server_id: 1
        binlog_file: binlog.000012
    binlog_position: 4711
           gtid_set: NULL
          client_id: maxwell
"""
FLINK = "Offset: {transaction_id=null, ts_sec=0, file=binlog.000012, pos=4711, kind=SPECIFIC, gtids=a:1-5,b:7, row=0}"


CONNECT = '{"ts_sec":17,"file":"binlog.000012","pos":4711,"row":1,"server_id":1,"event":2}'
RECORD = '["shop",{"server":"db"}]\t{"file":"binlog.000012","pos":4711,"gtids":"a:1-5"}'
STORED = '\xac\xed\x00sr{"file":"binlog.000012","pos":4711,"snapshot":false}\x00x'
MESSAGES = "\n".join(
    f'{{"before": null, "after": {{"id": 1}}, "source": {{"connector": "mysql", "snapshot": "{snapshot}", '
    f'"table": "t", "gtid": "a:{place}", "file": "binlog.000012", "pos": {place}, "row": {row}}}, "op": "c"}}'
    for place, row, snapshot in ((9000, 9, "last"), (4711, 0, "false"), (4711, 2, "false"), (3000, 7, "false"))
)
BY_GTID = '{"server_id":1,"gtid_set":"a:1-9","binlog_file":null,"client_id":"m"}'


@together(
    "text, wanted",
    [
        (CONNECT, ForeignPosition("Debezium", AT, inside=DeliveredPart(1, 2))),
        (MESSAGES, ForeignPosition("Debezium", AT, inside=DeliveredPart(3, begin=4711, gtid="a:4711"))),
        (RECORD, ForeignPosition("Debezium", AT, "a:1-5")),
        (STORED, ForeignPosition("Debezium", AT)),
        (FLINK, ForeignPosition("Flink CDC", AT, "a:1-5,b:7")),
        (CANAL, ForeignPosition("Canal", AT)),
        (MAXWELL, ForeignPosition("Maxwell", AT)),
        (BY_GTID, ForeignPosition("Maxwell", None, "a:1-9")),
    ],
)
def test_positions_as_tools_write_them(text: str, wanted: ForeignPosition) -> None:
    assert parse_position(text) == wanted


@together(
    "text, told",
    [
        ("nothing", "not a position of a known tool"),
        ('{"file":"a.1","pos":4} {"file":"a.2","pos":4}', "several positions: a.1:4, a.2:4"),
        ('{"file":"a.1","pos":4,"snapshot":"INITIAL"}', "still copying"),
        ('{"file":"a.1","pos":"x"}', "lacks a number"),
        ('{"file":"a.1","pos":null}', "lacks a number"),
        ('{"file":"a.1","pos":[4]}', "lacks a number"),
        ('{"file":"a.1","pos":1e999}', "lacks a number"),
        ('{"file":"a.1","pos":4.5}', "lacks a number"),
        ('{"file":"a.1","pos":-4}', "lacks a number"),
    ],
)
def test_what_is_no_position_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        parse_position(text)


def imported(pipeline: ShortPipeline, position: str) -> Any:
    return CliRunner().invoke(app, ["import", str(pipeline.file), position])


@pytest.mark.mysql
def test_a_pipeline_goes_on_where_the_other_tool_was_inside_a_transaction(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    pipeline = ShortPipeline(any_server, tmp_path, any_server.new_database("import"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    file, end = end_of_log(any_server)
    pipeline.source("BEGIN", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)", "COMMIT")
    events = any_server.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {end}")
    inside = next(int(event[1]) for event in reversed(events) if "rows" in str(event[2]).lower())
    begun = max(int(event[1]) for event in events if "gtid" in str(event[2]).lower() and int(event[1]) < inside)
    done = imported(pipeline, f'{{"file": "{file}", "pos": {inside}, "event": 2, "row": 1}}')
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"the next run continues after Debezium, at {file}:{begun}")
    assert "1 rows of" in done.stdout
    pipeline.source("ALTER TABLE t ADD b INT", "INSERT INTO t VALUES (4, 4, 4)")
    pipeline.run()
    assert sorted(pipeline.sink("SELECT * FROM t")) == [(2, 2, None), (3, 3, None), (4, 4, 4)]
    again = imported(pipeline, "whatever")
    assert again.exit_code != 0
    assert "started already" in str(again.exception)


@pytest.mark.mysql
def test_a_last_transaction_that_is_delivered_does_not_come_again(any_server: MySqlServer, tmp_path: Path) -> None:
    """Debezium counts events, on MariaDB with the texts of statements where it reads those (`include.query`); a message
    of its topics says more. `k` has no key: its rows would come twice."""
    database = any_server.new_database("import")
    any_server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE k (a INT)", database=database)
    executed = "gtid_binlog_pos" if any_server.flavor == "mariadb" else "gtid_executed"
    ((gtids,),) = any_server.execute(f"SELECT @@GLOBAL.{executed}")
    file, begin = end_of_log(any_server)
    statements = ("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2", "INSERT INTO k VALUES (3), (4), (5)")
    any_server.execute("BEGIN", *statements, "COMMIT", database=database)
    events = any_server.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {begin}")
    inside = [int(event[1]) for event in events if "rows_v1" in (kind := str(event[2]).lower()) or kind == "write_rows"]
    stored = {"file": file, "pos": begin, "gtids": "".join(str(gtids).split()), "event": 6}
    source = {"connector": "mysql", "table": "k", "file": file, "pos": inside[-1], "gtid": None}
    whole, part = (
        "after its last transaction",
        f"are not delivered: 1 rows of {database}.k; it comes again, as a whole",
    )
    told: list[tuple[dict[str, Any], str, list[int]]] = [
        (source | {"row": 2}, whole, []), (source | {"row": 1}, part, [3, 4, 5]),
    ]  # fmt: skip
    if any_server.flavor == "mariadb":  # the sixth event is the third statement's rows; with texts, the second's
        told += [(stored | {"row": 1}, "cannot be told: it comes again", [3, 4, 5])]
        told += [(stored | {"row": 1, "event": 3}, f"not delivered: 3 rows of {database}.k, 1 rows of", [3, 4, 5])]
        stored["event"] = 9
    told += [(stored | {"row": 3}, whole, []), (stored | {"row": 2}, part, [3, 4, 5])]
    for number, (position, words, rows) in enumerate(told):
        folder = tmp_path / str(number)
        folder.mkdir()
        pipeline = ShortPipeline(any_server, folder, database)
        done = imported(pipeline, json.dumps(position))
        assert words in done.stdout, (position, done.output)
        pipeline.run()
        assert sorted(pipeline.sink("SELECT a FROM k")) == [(row,) for row in rows], position
    source = source | {"row": 2, "gtid": "11111111-2222-3333-4444-555555555555:1"}
    pipeline = ShortPipeline(any_server, tmp_path, database)
    assert "and the server has" in str(imported(pipeline, json.dumps(source)).exception)


@pytest.mark.mysql
def test_transactions_that_are_through_are_left_out_by_their_gtids(mysql_server: MySqlServer, tmp_path: Path) -> None:
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("import"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    ((gtids,),) = mysql_server.execute("SELECT @@GLOBAL.gtid_executed")
    pipeline.source("INSERT INTO t VALUES (2)")
    position = tmp_path / "offset.json"
    position.write_text(f'{{"file": "gone.000001", "pos": 4, "gtids": "{"".join(gtids.split())}"}}')
    done = imported(pipeline, f"@{position}")
    assert done.exit_code == 0
    assert "its GTIDs count, though not gone.000001:4 beside them: gone.000001 is gone" in done.stdout
    pipeline.run()
    assert pipeline.sink("SELECT * FROM t") == [(2,)]


@pytest.mark.mysql
def test_transactions_of_another_server_are_refused(any_server: MySqlServer, tmp_path: Path) -> None:
    """What this server has would be read from its begin, and be there twice."""
    pipeline = ShortPipeline(any_server, tmp_path, any_server.new_database("import"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    if any_server.flavor == "mariadb":
        ((own,),) = any_server.execute("SELECT @@GLOBAL.gtid_binlog_pos")
        strange = "77-4711-3"
    else:
        ((own,),) = any_server.execute("SELECT @@GLOBAL.gtid_executed")
        strange = "11111111-2222-3333-4444-555555555555:1-5"
    file, end = end_of_log(any_server)
    for gtids in (strange, f"{''.join(str(own).split())},{strange}"):
        done = imported(pipeline, json.dumps({"file": file, "pos": end, "gtids": gtids}))
        assert isinstance(done.exception, SourceError), done.output
        assert f"counts transactions as read that this server does not have: {strange}" in str(done.exception)
    assert pipeline.state.initial_offset() is None


@pytest.mark.mysql
def test_a_place_that_the_log_does_not_have_is_refused_and_nothing_has_begun(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("import"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)")
    done = imported(pipeline, '{"binlog_file": "gone.000001", "binlog_position": 4}')
    assert "gone.000001 is gone" in str(done.exception)
    assert "(run the pipeline without `cdc import`: with scan.startup.mode: initial it copies the tables first)" in str(
        done.exception
    )
    assert pipeline.state.initial_offset() is None


def end_of_log(server: MySqlServer) -> tuple[str, int]:
    statement = "SHOW MASTER STATUS" if server.flavor == "mariadb" else "SHOW BINARY LOG STATUS"
    row = server.execute(statement)[0]
    return str(row[0]), int(row[1])
