"""The server's log is reset while its reader cannot reach it, and as much is written to it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cutting_proxy import CuttingProxy
from servers import FLAVORS, own_servers, source_of

from cdc.errors import PositionLost
from cdc.source import Context, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import all_images, drain
from cdc_services.server import StartedServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql
_NOBODY = 1
"""A port at which nothing listens."""


@pytest.fixture(params=FLAVORS)
def server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    with own_servers() as make:
        yield make(request.param)


def _followed_for_ever(source: MySqlSource, at: Offset) -> None:
    while True:
        at = source.latest_offset(at, None, 1.0)


def test_a_log_reset_while_its_reader_was_cut_off_is_another_log(server: StartedServer, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)")
    proxy = CuttingProxy(server.port)
    fields = source_of(server, r"shop.\.*", **{"scan.startup.mode": "latest-offset", "port": proxy.port})
    source = MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(tmp_path)))
    at = source.initial_offset()
    try:
        for number in range(3):
            server.execute(f"INSERT INTO shop.t VALUES ({number}, 1)")
            while (end := source.latest_offset(at, None, 1.0)) == at:
                pass
            at = end
        opened = server.execute("SELECT UNIX_TIMESTAMP()")[0][0]
        while server.execute("SELECT UNIX_TIMESTAMP()")[0][0] == opened:
            pass  # a file is known by the second in which it was opened
        proxy.lead_to(_NOBODY)
        server.execute(
            "RESET BINARY LOGS AND GTIDS" if server.flavor == "mysql" else "RESET MASTER",
            *(f"UPDATE shop.t SET v = {number}" for number in range(2, 60)),
        )  # fmt: skip
        proxy.lead_to(server.port)
        with pytest.raises(PositionLost, match="the server's log was reset"):
            _followed_for_ever(source, at)
    finally:
        source.stop()
        proxy.close()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_nothing_is_missed_where_only_the_read_file_is_purged(flavor: str, tmp_path: Path) -> None:
    """A bounded run on a new file that has nothing yet moves to it, and the file before may go. Without GTIDs."""
    more = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") if flavor == "mysql" else ()
    with own_servers() as make:
        server = make(flavor, extra_args=more)
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        fields = source_of(server, r"shop.\.*", **{"scan.startup.mode": "latest-offset"})

        def source() -> MySqlSource:
            return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(tmp_path)))

        at = source().initial_offset()
        for step in (["INSERT INTO shop.t VALUES (1)"], ["FLUSH BINARY LOGS"], ["INSERT INTO shop.t VALUES (2)"]):
            server.execute(*step)
            batches = drain(source(), at)
            at = batches[-1].end
            if "FLUSH" in step[0]:
                server.execute(f"PURGE BINARY LOGS TO '{server.execute('SHOW BINARY LOGS')[-1][0]}'")
        assert [row["id"] for _, row in all_images(batches)] == [2]
