"""What goes wrong in practice: each with an error that says what, where, and what to do."""

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from doris_harness import Harness
from doris_servers import DorisServer, own_doris
from sink_calls import created

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from cdc.testing.delivery_conformance import KEYED, ORDERS, keyed, prepare, row

pytestmark = pytest.mark.slow
NUMBER = itertools.count()
SECRET = "s3cr3t/@:pw"


@pytest.fixture(scope="module")
def server() -> Iterator[DorisServer]:
    with own_doris(root_password=SECRET) as running:
        yield running


@pytest.fixture
def harness(server: DorisServer, tmp_path: Path) -> Iterator[Harness]:
    server.query("DROP DATABASE IF EXISTS shop FORCE")
    yield Harness(server, tmp_path / "sink", f"bad-{next(NUMBER)}")
    server.own.clear()
    server.own.be_up()


def one_row() -> list[ChangeBlock]:
    return [keyed("+I", row(1, "a"))]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_password_with_every_character_works_and_shows_nowhere(harness: Harness) -> None:
    sink = harness.sink()
    sink.commit(0, prepare(sink, 0, one_row(), create=True))
    assert harness.rows(ORDERS) == [row(1, "a")]
    assert SECRET not in repr(sink.__dict__)


@pytest.mark.parametrize("direct", [False, True], ids=["redirected", "straight"])
def test_a_wrong_password(harness: Harness, direct: bool) -> None:
    harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    harness.options = (
        {"password": "wrong-one", "benodes": harness.server.own.be} if direct else {"password": "wrong-one"}
    )
    sink = harness.sink()
    with pytest.raises(SinkError, match=r"(?i)denied") as caught:
        sink.apply(0, [CreateTable(TableId("shop", "more"), KEYED)])
    assert "sink.password" in caught.value.hint
    assert "wrong-one" not in caught.value.to_json()
    with pytest.raises(SinkError, match=r"(?i)denied|authori") as caught:
        sink._transactions.client.state("shop", "x")
    assert not caught.value.retryable
    assert caught.value.exit_code == 4


def test_a_user_who_may_read_but_not_load(harness: Harness) -> None:
    harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    harness.server.query("CREATE USER IF NOT EXISTS reader IDENTIFIED BY 'r'")
    harness.server.query("GRANT SELECT_PRIV ON shop.* TO reader")
    sink = harness.sink(username="reader", password="r")
    with pytest.raises(SinkError, match=r"(?i)denied|priv") as caught:
        prepare(sink, 0, one_row())
    assert "LOAD" in caught.value.hint
    assert not caught.value.retryable


def test_a_user_who_may_not_create(harness: Harness) -> None:
    harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    harness.server.query("CREATE USER IF NOT EXISTS loader IDENTIFIED BY 'l'")
    harness.server.query("GRANT SELECT_PRIV, LOAD_PRIV ON shop.* TO loader")
    with pytest.raises(SinkError, match=r"(?i)denied") as caught:
        harness.sink(username="loader", password="l").apply(0, [CreateTable(TableId("shop", "more"), KEYED)])
    assert not isinstance(caught.value, ChangeRefused), "which some behaviors skip"
    assert "CREATE_PRIV" in caught.value.hint


def test_a_database_that_is_gone(harness: Harness) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    harness.server.query("DROP DATABASE shop FORCE")
    with pytest.raises(SinkError, match=r"(?i)unknown database|shop"):
        prepare(sink, 0, one_row())


def test_a_table_that_is_gone_between_load_and_commit(harness: Harness) -> None:
    sink = harness.sink()
    prepared = prepare(sink, 0, one_row(), create=True)
    harness.server.query("DROP TABLE shop.orders FORCE")
    with pytest.raises(SinkError, match=r"orders|transaction|table") as caught:
        sink.commit(0, prepared)
    assert caught.value.exit_code == 4


def test_no_front_end(harness: Harness) -> None:
    harness.options = {"fenodes": f"127.0.0.1:{closed_port()}", "jdbc-url": f"jdbc:mysql://127.0.0.1:{closed_port()}"}
    with pytest.raises(SinkUnavailable, match="cannot be reached") as caught:
        harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    assert "127.0.0.1" in caught.value.where
    assert SECRET not in caught.value.to_json()


def test_the_second_front_end_answers(harness: Harness) -> None:
    own = harness.server.own
    harness.options = {
        "fenodes": f"127.0.0.1:{closed_port()},127.0.0.1:{own.http_port}",
        "jdbc-url": f"jdbc:mysql://127.0.0.1:{closed_port()},127.0.0.1:{own.sql_port}",
    }
    sink = harness.sink()
    sink.commit(0, prepare(sink, 0, one_row(), create=True))
    assert harness.rows(ORDERS) == [row(1, "a")]


def test_no_back_end(harness: Harness) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    harness.server.own.be_down()
    with pytest.raises(SinkUnavailable, match=r"cannot be reached|No backend") as caught:
        prepare(sink, 0, one_row())
    assert SECRET not in caught.value.to_json()


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("[IO_ERROR]failed to write: No space left on device", "disk"),
        ("errCode = 2, detailMessage = disk /data reach capacity limit", "disk"),
        ("errCode = 2, detailMessage = current running txns on db 10002 is 100, larger than limit 100", "running"),
        ("[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000", "compact"),
        ("errCode = 2, detailMessage = Database[shop] data size exceeds quota", "quota"),
    ],
)
def test_a_load_that_is_refused_says_why(harness: Harness, message: str, hint: str) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    harness.server.own.fault("be.load", times=-1, action="refuse", message=message)
    with pytest.raises(SinkError) as caught:
        prepare(sink, 0, one_row())
    assert message.split("=")[-1].strip()[:20] in caught.value.message
    assert hint in caught.value.hint
    assert "shop.orders" in caught.value.where


def test_a_value_that_does_not_fit_is_found_before_it_is_sent(harness: Harness) -> None:
    sink = harness.sink()
    sink.apply(
        0, [CreateTable(ORDERS, TableSchema((KEYED.columns[0], Column("name", DataType(Kind.VARCHAR, 2))), ("id",)))]
    )
    wide = block(ORDERS, KEYED, [("+I", row(7, "more than eight bytes"))], sequence=1234)
    with pytest.raises(SinkError, match="too long") as caught:
        prepare(sink, 0, [wide])
    for part in ("shop.orders.name", "id=7", " at 1234"):
        assert part in caught.value.where
    assert [item for item in harness.server.own.transactions() if harness.pipeline in item["label"]] == []


@pytest.mark.parametrize(
    ("policy", "name", "counted"),
    [("null", None, "too-long-to-null"), ("truncate", "more tha", "too-long-truncated")],
)
def test_policies_are_counted(harness: Harness, policy: str, name: str | None, counted: str) -> None:
    sink = harness.sink(**{"sink.invalid-values": policy})
    sink.apply(
        0, [CreateTable(ORDERS, TableSchema((KEYED.columns[0], Column("name", DataType(Kind.VARCHAR, 2))), ("id",)))]
    )
    prepared = prepare(sink, 0, [keyed("+I", row(7, "more than eight bytes"))])
    assert prepared[0].counts == {f"{counted} shop.orders.name": 1}
    sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(7, name)]


def test_dead_letters(harness: Harness, tmp_path: Path) -> None:
    sink = harness.sink(**{"sink.invalid-values": "dead-letter", "sink.dead-letter.path": str(tmp_path / "dead")})
    sink.apply(
        0, [CreateTable(ORDERS, TableSchema((KEYED.columns[0], Column("name", DataType(Kind.VARCHAR, 2))), ("id",)))]
    )
    prepared = prepare(sink, 0, [keyed("+I", row(7, "more than eight bytes"), "+I", row(8, "fits"))])
    sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(8, "fits")]
    assert prepared[0].counts == {"too-long-dead-letter shop.orders.name": 1}
    rejected = iter([keyed("+I", row(7, "more than eight bytes"))])
    sink.prepare(TaskAttempt(0, prepared[0].partition, 0, generation=1), rejected)  # read once more after a lost load
    (file,) = (tmp_path / "dead").rglob("*.jsonl")
    assert file.read_text().count('"key": {"id": 7}') == 1


def test_deletes_that_are_switched_off_are_counted(harness: Harness) -> None:
    sink = harness.sink(**{"sink.enable-delete": False})
    sink.commit(0, prepare(sink, 0, one_row(), create=True))
    prepared = prepare(sink, 1, [keyed("-D", row(1, "a"))])
    assert prepared[0].counts == {"delete-dropped": 1}
    sink.commit(1, prepared)
    assert harness.rows(ORDERS) == [row(1, "a")]


def test_too_few_back_ends_for_the_replicas(harness: Harness) -> None:
    harness.options = {"table.create.properties.replication_num": "3"}
    with pytest.raises(ChangeRefused, match="replication num") as caught:
        harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    assert "table.create.properties.replication_num" in caught.value.hint
