"""The next file of a log has to go on where the one before ended; what another file has taken away is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from binlog_builder import Event
from log_script import SOURCE, chunk, insert, seen
from servers import own_servers, source_of

from cdc.errors import PositionLost
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import ReadBatch, all_images, drain
from cdc_services.server import StartedServer
from connectors.mysql import events
from connectors.mysql.follow.continuity import Continuity
from connectors.mysql.gtid import GtidSet
from connectors.mysql.log.dump_command import encode_gtid_set
from connectors.mysql.log.segment import ANONYMOUS
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

ONE, TWO, OTHER = "binlog.000001", "binlog.000002", "other.000001"
UUID_ = str(UUID(bytes=SOURCE))


def previous(done: str) -> Event:
    return events.PREVIOUS_GTIDS, encode_gtid_set(GtidSet.parse(done))


def gtid_list(*entries: tuple[int, int, int]) -> Event:
    body = b"".join(d.to_bytes(4, "little") + s.to_bytes(4, "little") + n.to_bytes(8, "little") for d, s, n in entries)
    return events.MARIADB_GTID_LIST, len(entries).to_bytes(4, "little") + body


def test_what_was_read_or_done_before_is_not_missed() -> None:
    files = Continuity(f"{UUID_}:1-3")
    files.add([(UUID_, 4, 5)])
    files.check(chunk([previous(f"{UUID_}:1-5"), *insert(6, "shop.t")], TWO))
    assert files.executed_gtids == f"{UUID_}:1-5"


def test_transactions_of_a_file_that_is_not_there_are_named() -> None:
    files = Continuity(f"{UUID_}:1-3")
    files.add([(UUID_, 4, 5)])
    with pytest.raises(PositionLost, match=rf"binlog.000002 continues after the transactions {UUID_}:6-8, which"):
        files.check(chunk([previous(f"{UUID_}:1-8"), seen(9)], TWO))


def test_the_same_of_mariadb() -> None:
    files = Continuity("0-1-3,7-1-2")
    files.add([(0, 1, 4)])
    files.check(chunk([gtid_list((0, 2, 1), (7, 1, 2), (0, 1, 4))], TWO))
    with pytest.raises(PositionLost, match="the transactions 0-1-9,8-1-1, which"):
        files.check(chunk([gtid_list((0, 1, 9), (7, 1, 2), (8, 1, 1))], TWO))


def test_nothing_is_said_where_transactions_have_no_gtids() -> None:
    files = Continuity(f"{UUID_}:1-3")
    files.add([ANONYMOUS])
    files.check(chunk([previous(f"{UUID_}:1-8")], TWO))
    Continuity(None).check(chunk([previous(f"{UUID_}:1-8")], TWO))


def test_files_of_another_name_that_do_not_follow_by_number() -> None:
    with pytest.raises(PositionLost, match=r"the log continues in other.000001 after binlog.000002"):
        Continuity(None).next_file(TWO, chunk([seen(1)], OTHER))


@pytest.fixture
def server() -> Iterator[StartedServer]:
    with own_servers() as make:
        yield make("mysql")


class Shop:
    def __init__(self, server: StartedServer, folder: Path) -> None:
        self.server, self._folder, self.at = server, folder, Offset()
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        self.at = self._source().initial_offset()

    def _source(self) -> MySqlSource:
        fields = source_of(self.server, r"shop.\.*", **{"scan.startup.mode": "latest-offset"})
        return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(self._folder)))

    def insert(self, number: int) -> None:
        self.server.execute(f"INSERT INTO shop.t VALUES ({number})")

    def read(self) -> list[int]:
        batches: list[ReadBatch] = drain(self._source(), self.at, limits=Limits(1 << 20, 100))
        self.at = batches[-1].end
        return [row["id"] for _, row in all_images(batches)]


@pytest.mark.exhaustive
@pytest.mark.mysql
def test_a_log_of_another_name(server: StartedServer, tmp_path: Path) -> None:
    """Read on where nothing of the old one is missing; when it is named as before again, what is missing is told."""
    shop = Shop(server, tmp_path)
    shop.insert(1)
    server.execute("FLUSH BINARY LOGS")
    shop.insert(2)
    assert shop.read() == [1, 2]
    note = LocalStore(tmp_path).read_json("opened.json", hint="")
    assert note is not None
    assert note["file"] == TWO, "the file that the reader came to is known by when it was opened"

    before = shop.at
    server.restart("--log-bin=other")
    shop.insert(3)
    assert shop.read() == [3]
    assert shop.at["file"] == OTHER

    server.restart()
    shop.at = before
    with pytest.raises(PositionLost, match="were not read and are in no file that the server has"):
        shop.read()
