"""How far a reader is behind the end of the log: by arithmetic, and as a real server tells it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from cdc_process import wait_for
from fake_stream import FakeServer, FakeStream
from test_follower import LONG_S, following, taken, transactions
from together import together

from cdc.errors import SourceUnavailable
from cdc_services.server import MySqlServer
from connectors.mysql.follow.log_end import ASK_S, LogEndPoller, ServerLogEnd
from connectors.mysql.server.positions import BinlogFile, LogPosition
from connectors.mysql.server.server_info import server_info

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILES = (
    BinlogFile("b.000009", 500),
    BinlogFile("b.000010", 1_000),
    BinlogFile("b.000011", 200),
    BinlogFile("b.000012", 70),
)


@together(
    "here, behind",
    [
        (LogPosition("b.000012", 70), 0),
        (LogPosition("b.000012", 4), 66),
        (LogPosition("b.000012", 99), 0),
        (LogPosition("b.000013", 4), 0),
        (LogPosition("b.000011", 150), 50 + 70),
        (LogPosition("b.000009", 100), 400 + 1_000 + 200 + 70),
    ],
)
def test_bytes_to_the_end_are_those_of_all_files_between(here: LogPosition, behind: int) -> None:
    assert ServerLogEnd(LogPosition("b.000012", 70), files=FILES).bytes_behind(here) == behind


def test_transactions_to_the_end_are_those_that_are_not_done() -> None:
    end = ServerLogEnd(LogPosition("b.000001", 4), f"{UUID}:1-40")
    assert end.transactions_behind(f"{UUID}:1-10:21-30") == 20
    assert end.transactions_behind(None) is None
    assert ServerLogEnd(LogPosition("b.000001", 4)).transactions_behind(f"{UUID}:1-10") is None


def test_a_reader_whose_queue_is_full_asks_and_one_at_the_end_of_the_log_does_not() -> None:
    asked: list[LogPosition] = []
    often = threading.Event()

    def behind(here: LogPosition) -> None:
        asked.append(here)
        if len(asked) > 3:
            often.set()

    with following(FakeServer(FakeStream(transactions())), ahead_bytes=1, behind=behind) as follower:
        assert often.wait(LONG_S)
        assert not follower.at_end
        taken(follower, 3)
        wait_for("the end of the log", lambda: follower.at_end)
    often.clear()
    asked.clear()
    with following(FakeServer(FakeStream([None] * 9)), behind=behind) as follower:
        wait_for("the end of the log", lambda: follower.at_end)
        assert follower.poll(None, 0.0) == []
    assert asked == []


@pytest.mark.mysql
def test_the_server_tells_the_end_now_and_then(any_server: MySqlServer) -> None:
    database = any_server.new_database("ends")
    any_server.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    now, up = 0.0, True

    def session() -> Any:
        if not up:
            raise SourceUnavailable("it is away")
        return any_server.connect()

    connection = any_server.connect()
    before = server_info(connection)
    here = LogPosition(before.file, before.position)
    end = LogEndPoller(session, lambda: now)
    inserts = [f"INSERT INTO t VALUES ({number})" for number in range(7)]
    any_server.execute(*inserts, "FLUSH BINARY LOGS", database=database)
    after = server_info(connection)
    connection.close()
    end.poll(here)
    assert end.latest is None, "not before its time"
    now = ASK_S
    end.poll(here)
    assert end.latest is not None
    assert (end.latest.at.file, end.latest.at.position) >= (after.file, after.position)
    assert end.latest.bytes_behind(here) > 7 * 40
    if not before.mariadb:
        done = end.latest.transactions_behind(before.executed)
        assert done is not None
        assert done >= 7
    now, up = 2 * ASK_S, False
    end.poll(here)
    assert end.latest is None
