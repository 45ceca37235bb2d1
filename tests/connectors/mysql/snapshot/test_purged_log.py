"""The server has purged log that was not read: stop, or re-snapshot everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import wait_for
from servers import ServerFactory
from test_snapshot_source import LIMITS, Shop, numbers

from cdc.errors import PositionLost
from cdc.testing.source_conformance import read
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture
def shop(server_factory: ServerFactory, tmp_path: Path) -> Shop:
    shop = Shop(server_factory("mysql"), tmp_path)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(150)}")
    shop.run("CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)")
    shop.catch_up()
    return shop


def purge(server: MySqlServer) -> None:
    server.execute("FLUSH BINARY LOGS")
    (*_, last) = server.execute("SHOW BINARY LOGS")
    server.execute(f"PURGE BINARY LOGS TO '{last[0]}'")


def change_everything(shop: Shop) -> None:
    shop.run(
        "DELETE FROM t WHERE id < 50",
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 5",
        "INSERT INTO t VALUES (999, 'x', 6)",
        "DROP TABLE gone",
        "CREATE TABLE fresh (id INT PRIMARY KEY)",
        "INSERT INTO fresh VALUES (7)",
    )


def assert_equal(shop: Shop) -> None:
    assert not shop.differs("t", "id, name, more")
    assert not shop.differs("fresh", "id")
    assert shop.sink.tables == {shop.table("t"), shop.table("fresh")}
    shop.run("INSERT INTO t VALUES (1000, 'on', 1)")
    assert shop.catch_up().inserts == 1
    assert not shop.differs("t", "id, name, more")


def test_a_purged_log_stops_the_pipeline(shop: Shop) -> None:
    change_everything(shop)
    purge(shop.server)
    with pytest.raises(PositionLost, match="is gone"):
        shop.catch_up()


def test_a_purged_log_is_jumped_over_when_asked(shop: Shop) -> None:
    shop.options["scan.on-purged"] = "resnapshot"
    change_everything(shop)
    purge(shop.server)
    shop.catch_up()
    assert_equal(shop)


def test_a_log_purged_under_a_planned_batch_is_jumped_over_in_the_next(shop: Shop) -> None:
    shop.options["scan.on-purged"] = "resnapshot"
    shop.run("INSERT INTO t VALUES (500, 'never read')")
    source = shop.source()
    source.stop_at_current()
    assert shop.offset is not None
    end = source.latest_offset(shop.offset, LIMITS, 0.0)
    source.stop()
    change_everything(shop)
    purge(shop.server)
    lost = read(shop.source(), shop.offset, end)
    assert lost.blocks == ()
    shop.offset = end
    shop.catch_up()
    assert_equal(shop)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_log_that_was_reset_and_written_again_is_noticed(
    flavor: str, server_factory: ServerFactory, tmp_path: Path
) -> None:
    """Files, positions and GTIDs are all there again, with other rows."""
    shop = Shop(server_factory(flavor), tmp_path)
    reset = "RESET BINARY LOGS AND GTIDS" if flavor == "mysql" else "RESET MASTER"
    shop.run(reset, "CREATE TABLE t (id INT PRIMARY KEY, name CHAR(1))", "INSERT INTO t VALUES (1, 'a')")
    shop.catch_up()
    second = "SELECT UNIX_TIMESTAMP()"
    shop.run("DROP TABLE t")
    before = shop.server.execute(second)
    wait_for("the next second of the server's clock", lambda: shop.server.execute(second) != before)
    shop.run(reset, "CREATE TABLE t (id INT PRIMARY KEY, name CHAR(1))", "INSERT INTO t VALUES (1, 'b')")
    shop.run(*(f"INSERT INTO t VALUES ({number}, 'c')" for number in range(2, 20)))
    with pytest.raises(PositionLost, match="is not the file that was read"):
        shop.catch_up()
    shop.options["scan.on-purged"] = "resnapshot"
    shop.catch_up()
    assert not shop.differs("t", "id, name")
    shop.run("INSERT INTO t VALUES (99, 'd')")
    shop.catch_up()
    assert not shop.differs("t", "id, name")
