"""Where a view stands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from servers import ServerFactory
from together import together

from cdc.retry import RetryPolicy
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.read.session import ChunkSessions
from connectors.mysql.snapshot.read.view import log_end_before, past_checkpoints

AT = LogPosition("binlog.000002", 400)


@together(
    "events, least, position",
    [
        ([], 440, 400),
        ([("Gtid", 442), ("Query", 500)], 440, 400),
        ([("Binlog_checkpoint", 440)], 440, 440),
        ([("Binlog_checkpoint", 440), ("Binlog_checkpoint", 480), ("Gtid", 520)], 480, 480),
        ([("Binlog_checkpoint", 440), ("Binlog_checkpoint", 480), ("Gtid", 520)], 440, 440),
        ([("Binlog_checkpoint", 440)], 400, 400),
    ],
)
def test_a_checkpoint_is_no_change_that_a_view_could_lack(
    events: list[tuple[str, int]], least: int, position: int
) -> None:
    """A view stands no further than it has to: the log may stay before the checkpoint that it ends with."""
    found = past_checkpoints(AT, lambda _: events, lambda at: at.position < least)
    assert found == LogPosition(AT.file, position)


@together("now_s, position", [(101, 7), (103, 3), (999, 7)])
def test_a_noted_end_of_the_log_is_as_old_as_the_server_says(
    now_s: int, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of the machines that noted it and that read the chunk do not matter."""
    monkeypatch.setattr("connectors.mysql.snapshot.read.view.clock_s", lambda _: now_s)
    sessions: Any = SimpleNamespace(side=None, end_of_log=lambda: LogPosition("b", 7))
    found = log_end_before(sessions, {"file": "b", "position": 3, "at_s": 100}, 0.001, RetryPolicy())
    assert found == LogPosition("b", position)


@pytest.mark.mysql
def test_the_server_names_the_events_behind_a_place(server_factory: ServerFactory) -> None:
    server = server_factory("mariadb")
    server.execute("FLUSH BINARY LOGS", "CREATE DATABASE shop")
    options = ConnectionOptions(
        hostname=server.host, port=server.port, username=server.user, password=server.password, tls_mode="disabled",
        key_retrieval=True,
    )  # fmt: skip
    sessions = ChunkSessions(lambda: connect(options), 1)
    try:
        end = sessions.end_of_log()
        kinds = [kind for kind, _ in sessions.events_from(LogPosition(end.file, 4))]
        assert kinds[:3] == ["Format_desc", "Gtid_list", "Binlog_checkpoint"]
        assert sessions.events_from(end) == []
    finally:
        sessions.close()
