"""A foreign server at the address of the one that was read: it is told apart, with both names and the way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from together import together

from cdc.errors import SourceError, SourceUnavailable
from cdc.state.store import LocalStore
from cdc_services.server import MySqlServer
from connectors.mysql.follow.opened import check_log
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.same_server import check_has_transactions, check_same_history
from connectors.mysql.server.server_info import ServerInfo, gtids_at, server_info

OLD, NEW, ELSE = (f"{digit * 8}-0000-0000-0000-000000000000" for digit in "123")
INFO = ServerInfo(
    flavor="mysql", version="9.7.4", version_number=(9, 7, 4), server_id=1, server_uuid=NEW, gtid=True, log_bin=True,
    row_format="ROW", row_image="FULL", lower_case_table_names=0, executed="", purged="",
    file="binlog.000001", position=4,
)  # fmt: skip


def test_a_server_with_none_of_the_transactions_is_refused_at_once() -> None:
    with pytest.raises(SourceError, match="not a replica of that one") as caught:
        check_has_transactions(replace(INFO, executed=f"{NEW}:1-900"), f"{OLD}:1-5", "db:3306", old=OLD)
    assert not isinstance(caught.value, SourceUnavailable)
    assert OLD in caught.value.message
    assert NEW in caught.value.message
    assert "point hostname and port at the old server" in caught.value.hint


@together("executed", ["", f"{OLD}:1-4", f"{NEW}:1-3,{OLD}:1"])
def test_a_replica_that_is_behind_is_waited_for(executed: str) -> None:
    with pytest.raises(SourceUnavailable, match="lacks the transactions"):
        check_has_transactions(replace(INFO, executed=executed), f"{OLD}:1-5,{ELSE}:1", "db:3306", old=OLD)


@pytest.mark.parametrize("executed", [f"{OLD}:1-9,{NEW}:1-3", f"{OLD}:1-5"])
def test_a_replica_with_all_of_them_takes_over(executed: str) -> None:
    check_has_transactions(replace(INFO, executed=executed), f"{OLD}:1-5", "db:3306", old=OLD)


@pytest.mark.mysql
def test_a_mariadb_server_of_the_same_number_is_known_by_its_log(mariadb_server: MySqlServer, tmp_path: Path) -> None:
    mariadb_server.new_database("place")
    connection = mariadb_server.connect()
    info = server_info(connection)
    check_same_history(connection, info, info.file, info.position, info.executed)
    domain, server, number = info.executed.split(",")[0].split("-")
    foreign = f"{domain}-{server}-{int(number) - 1}"
    with pytest.raises(SourceError, match="it is another server, or its log was reset") as caught:
        check_same_history(connection, info, info.file, info.position, foreign)
    assert foreign in caught.value.message
    assert info.executed in caught.value.message
    connection.close()

    between = LogPosition(info.file, info.position - 1)  # no event begins there
    start: Any = SimpleNamespace(server=info.identity, position=between, gtids=info.executed)
    streams: Any = SimpleNamespace(session=mariadb_server.connect)
    with pytest.raises(SourceUnavailable, match="or this is another server than before"):
        check_log(LocalStore(tmp_path), streams, lambda _: True, start, between, info.executed)
    assert not (tmp_path / "opened.json").exists(), "the file of a server that may be another is not noted"


def test_a_server_that_cannot_tell_its_gtids_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB answers NULL where its max_allowed_packet has become less than an event of the log."""
    monkeypatch.setattr("connectors.mysql.server.server_info.query", lambda *_, **__: [(None,)])
    connection: Any = SimpleNamespace(user="u", host="h", port=1)
    with pytest.raises(SourceUnavailable, match=r"cannot return the GTIDs at bin\.1:4.*max_allowed_packet"):
        gtids_at(connection, "bin.1", 4)
