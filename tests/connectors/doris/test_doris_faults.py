"""Answers that are lost, servers that die, loads that expire: nothing is lost, or there twice, or guessed."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doris_harness import Harness, sink_options
from doris_servers import DorisServer, own_doris

from cdc.errors import CommitUnknown, LoadsLost, SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import AlterPrimaryKey, CreateTable, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.delivery_conformance import KEYED, KEYLESS, LOG, ORDERS, by_id, keyed, keyless, prepare, row
from connectors.doris.sink import DorisSink
from connectors.shared.streamload import settings
from connectors.shared.streamload.options import LoadSinkOptions, wanted_replicas

pytestmark = pytest.mark.slow
NUMBER = itertools.count()
LOST = {"action": "cut"}
PAGE = {"action": "status", "code": 200, "body": "<html>The page of a proxy</html>"}
SENT_TWICE = {
    "action": "status", "code": 200,
    "body": '{"TxnId": -1, "Status": "Label Already Exists", "Message": "[LABEL_ALREADY_EXISTS]already been used"}',
}  # fmt: skip
"""The second answer to a proxy that tries once more."""
PROPERTY = "table.create.properties.replication_num"
ONE_ROW = {ORDERS: keyed("+I", row(1, "a")), LOG: keyless("+I", row(1, "a"))}
TABLES = pytest.mark.parametrize("table", [ORDERS, LOG], ids=["unique", "duplicate"])


@pytest.fixture(scope="module")
def server() -> Iterator[DorisServer]:
    with own_doris() as running:
        yield running


@pytest.fixture
def harness(server: DorisServer, tmp_path: Path) -> Iterator[Harness]:
    server.query("DROP DATABASE IF EXISTS shop FORCE")
    yield Harness(server, tmp_path / "sink", f"faults-{next(NUMBER)}")
    server.own.clear()
    server.own.be_up()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def policy(options: LoadSinkOptions, context: Context) -> RetryPolicy:
        return RetryPolicy(options.retry_timeout_s, 0.01, 0.05, context.stopping)

    monkeypatch.setattr(settings, "retry_policy", policy)


def created(harness: Harness, **options: Any) -> DorisSink:
    """A sink with the suite's two tables."""
    sink = harness.sink(**options)
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    return sink


def open_loads(harness: Harness) -> list[str]:
    return [state for state in harness.states() if state not in ("VISIBLE", "ABORTED")]


def check_once(harness: Harness, sink: DorisSink, table: TableId, prepared: Any) -> None:
    """Committed, the row is there once and no transaction stays open."""
    sink.commit(0, prepared)
    assert harness.rows(table) == [row(1, "a")]
    assert open_loads(harness) == []


@TABLES
@pytest.mark.parametrize(
    ("point", "fault"),
    [
        ("be.load", LOST),
        ("be.load.body", LOST),
        ("be.load", {"action": "status", "code": 503}),
        ("fe.load", {"action": "status", "code": 500}),
        ("be.load.done", {"action": "status", "code": 502}),
        ("be.load.done", PAGE),
        ("be.load.done", SENT_TWICE),
    ],
    ids=lambda value: value if isinstance(value, str) else value["action"],
)
def test_a_load_that_fails_is_repeated(harness: Harness, table: TableId, point: str, fault: dict[str, Any]) -> None:
    sink = created(harness)
    harness.server.own.fault(point, **fault)
    try:
        prepared = prepare(sink, 0, [ONE_ROW[table]])
    except SinkUnavailable:
        prepared = prepare(sink, 0, [ONE_ROW[table]], attempt=1)
    check_once(harness, sink, table, prepared)


@TABLES
def test_what_an_earlier_attempt_left_prepared_is_aborted(harness: Harness, table: TableId) -> None:
    sink = created(harness)
    prepare(sink, 0, [ONE_ROW[table]])
    check_once(harness, sink, table, prepare(sink, 0, [ONE_ROW[table]], attempt=1))
    assert sorted(harness.states()[-2:]) == ["ABORTED", "VISIBLE"]


@TABLES
@pytest.mark.parametrize(
    ("point", "fault"),
    [
        ("fe.2pc", {"action": "status", "code": 503}),
        ("be.2pc.done", PAGE),
        ("be.2pc", {"action": "refuse", "message": "get tableList write lock timeout"}),
    ],
    ids=["front end", "page", "lock"],
)
def test_a_commit_is_resolved(harness: Harness, table: TableId, point: str, fault: dict[str, Any]) -> None:
    sink = created(harness)
    prepared = prepare(sink, 0, [ONE_ROW[table]])
    harness.server.own.fault(point, **fault)
    check_once(harness, sink, table, prepared)


@TABLES
def test_a_server_that_dies_in_a_commit(harness: Harness, table: TableId) -> None:
    sink = created(harness)
    prepared = prepare(sink, 0, [ONE_ROW[table]])
    harness.server.own.fault("be.2pc.done", action="kill")
    with pytest.raises(CommitUnknown, match="no answer") as caught:
        sink.commit(0, prepared)
    assert "decided" in caught.value.hint
    harness.server.own.restart()
    check_once(harness, harness.sink(), table, prepared)


WITH_RETRIES = {"retry-timeout": "1 min"}
"""Each of these outages is longer than the number of tries that a sink once had, and over before the time is up."""


@TABLES
@pytest.mark.parametrize("point", ["fe.load", "be.load"])
def test_a_server_that_refuses_loads_for_a_while_is_waited_for(harness: Harness, table: TableId, point: str) -> None:
    sink = created(harness, **WITH_RETRIES)
    harness.server.own.fault(point, times=6, **LOST)
    check_once(harness, sink, table, prepare(sink, 0, [ONE_ROW[table]]))


def test_a_front_end_that_answers_no_commit_for_a_while_is_asked_again(harness: Harness) -> None:
    sink = created(harness, **WITH_RETRIES)
    prepared = prepare(sink, 0, [ONE_ROW[LOG]])
    harness.server.own.fault("be.2pc.done", times=3, **LOST)
    harness.server.own.fault("fe.2pc", times=4, action="status", code=503)
    check_once(harness, sink, LOG, prepared)


def test_a_run_that_is_to_stop_waits_for_no_server(harness: Harness, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    context = Context(harness.pipeline, LocalStore(harness.state), stop)
    sink = DorisSink(sink_options(harness.server, **{"retry-timeout": "1 h"}), context)
    sink.apply(0, [CreateTable(ORDERS, KEYED)])
    prepared = prepare(sink, 0, [ONE_ROW[ORDERS]])
    stop.touch()
    harness.server.own.fault("fe.2pc", times=-1, action="status", code=503)
    with pytest.raises(CommitUnknown, match="no answer"):
        sink.commit(0, prepared)
    harness.server.own.clear()
    check_once(harness, harness.sink(), ORDERS, prepared)


def test_only_undecided_loads_of_this_pipeline_are_aborted_at_a_start(harness: Harness) -> None:
    sink = created(harness)
    decided = prepare(sink, 3, [keyed("+I", row(3))])
    prepare(sink, 4, [keyed("+I", row(4))])
    prepare(sink, 5, [keyed("+I", row(5))], partition=1)
    other = Harness(harness.server, harness.state, harness.pipeline + "-other").sink()
    kept = prepare(other, 4, [keyed("+I", row(44))])
    harness.sink().abort(4)
    sink.commit(3, decided)
    other.commit(4, kept)
    assert by_id(harness.rows(ORDERS)) == [row(3), row(44)]
    print([(f.name, f.read_text()) for f in (harness.state / "labels").iterdir()])
    assert open_loads(harness) == []


@TABLES
def test_a_prepared_load_that_expired_is_an_error_that_says_what_to_do(harness: Harness, table: TableId) -> None:
    sink = created(harness)
    prepared = prepare(sink, 7, [ONE_ROW[table]])
    harness.server.own.advance(3700)
    with pytest.raises(LoadsLost, match="aborted 1 rows") as caught:
        sink.commit(7, prepared)
    assert str(table) in caught.value.message
    assert "stream_load_default_precommit_timeout_second" in caught.value.hint
    assert (caught.value.tables, caught.value.uncertain) == ({str(table): 0}, ())
    check_once(harness, sink, table, prepare(sink, 7, [ONE_ROW[table]]))


@TABLES
def test_a_label_that_doris_has_forgotten_is_not_guessed(harness: Harness, table: TableId) -> None:
    sink = created(harness)
    prepared = prepare(sink, 0, [ONE_ROW[table]])
    sink.commit(0, prepared)
    sink.commit(0, prepared)
    harness.finished("shop")
    harness.server.own.advance(13 * 3600)
    with pytest.raises(LoadsLost, match="forgotten") as caught:
        sink.commit(0, prepared)
    # Rows of a table with a key replace themselves; others would be there twice.
    again = {ORDERS: ({str(ORDERS): 0}, ()), LOG: ({}, (str(LOG),))}[table]
    assert (caught.value.tables, caught.value.uncertain) == again


def test_a_committed_batch_whose_decision_is_gone_is_loaded_again_where_that_changes_nothing(harness: Harness) -> None:
    sink = created(harness)
    sink.commit(0, prepare(sink, 0, [ONE_ROW[ORDERS]]))
    check_once(harness, sink, ORDERS, prepare(sink, 0, [ONE_ROW[ORDERS]]))
    sink.commit(0, prepare(sink, 0, [ONE_ROW[LOG]]))
    with pytest.raises(SinkError, match="older than the tables"):
        prepare(sink, 0, [ONE_ROW[LOG]])


def test_a_copy_of_a_table_waits_for_rows_that_are_not_visible_yet(harness: Harness) -> None:
    sink = created(harness)
    harness.server.own.fault("publish", action="slow", seconds=0.3)
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "b"))]))
    sink.apply(0, [AlterPrimaryKey(ORDERS, ("name",))])
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b")]


@pytest.mark.parametrize(
    "options",
    [{"auto-redirect": False}, {"sink.properties.compress_type": "gz"}, {"sink.properties.compress_type": "lz4"}],
)
def test_other_ways_to_send(harness: Harness, options: dict[str, Any]) -> None:
    sink = created(harness, **options)
    check_once(harness, sink, LOG, prepare(sink, 0, [ONE_ROW[LOG]]))


def test_straight_to_named_back_ends(harness: Harness) -> None:
    own = harness.server.own
    sink = created(harness, benodes=f"127.0.0.1:{own.be_http_port}")
    own.fault("fe.load", times=-1, action="status", code=500)
    check_once(harness, sink, LOG, prepare(sink, 0, [ONE_ROW[LOG]]))


@pytest.mark.parametrize(
    ("table", "fault"),
    [(ORDERS, LOST), (LOG, PAGE), (LOG, {"action": "status", "code": 504})],
    ids=["lost", "page", "gateway"],
)
def test_at_least_once_commits_with_the_load(harness: Harness, table: TableId, fault: dict[str, Any]) -> None:
    sink = created(harness, **{"sink.delivery-guarantee": "at-least-once"})
    harness.server.own.fault("be.load.done", **fault)
    prepared = prepare(sink, 0, [ONE_ROW[table]])
    assert harness.rows(table) == [row(1, "a")]
    check_once(harness, sink, table, prepared)


def test_at_least_once_loads_again_after_a_crash(harness: Harness) -> None:
    sink = created(harness, **{"sink.delivery-guarantee": "at-least-once"})
    prepare(sink, 0, [ONE_ROW[ORDERS], ONE_ROW[LOG]])
    sink.abort(0)
    sink.commit(0, prepare(sink, 0, [ONE_ROW[ORDERS], ONE_ROW[LOG]]))
    assert harness.rows(ORDERS) == [row(1, "a")]
    assert harness.rows(LOG) == [row(1, "a")] * 2


def test_a_load_over_the_size_limit_goes_in_parts(harness: Harness) -> None:
    sink = created(harness, **{"sink.load-size": "1 mb"})
    blocks = [keyless(*("+I", row(number, "x" * 60))) for number in range(3)]
    big = [keyless(*itertools.chain.from_iterable(("+I", row(n, "x" * 50)) for n in range(12_000)))] * 30
    prepared = prepare(sink, 0, [*blocks, *big])
    assert len(prepared) > 1
    sink.commit(0, prepared)
    harness.finished("shop")
    assert harness.server.query("SELECT count(*) FROM shop.log") == [(360_003,)]


def test_text_that_needs_another_spelling_goes_in_the_next_part(harness: Harness) -> None:
    sink = created(harness)
    plain = keyless(*itertools.chain.from_iterable(("+I", row(n, "x" * 50)) for n in range(12_000)))
    prepared = prepare(sink, 0, [*[plain] * 30, keyless("+I", row(-1, "a\x01\x02\n\\N\x00"), "+I", row(-2, "\\N"))])
    assert len(prepared) == 2
    sink.commit(0, prepared)
    harness.finished("shop")
    found = dict(harness.server.query("SELECT id, name FROM shop.log WHERE id < 0"))
    assert {key: bytes(v) if isinstance(v, bytes) else v.encode() for key, v in found.items()} == {
        -1: b"a\x01\x02\n\\N\x00",
        -2: b"\\N",
    }


def test_fewer_back_ends_than_a_new_table_wants_are_a_finding(harness: Harness) -> None:
    """The stand-in has one; without a property Doris wants three."""
    found = {text: list(harness.sink(**{PROPERTY: text}).examine())[-1] for text in ("1", "3")}
    assert [(one.level, one.fix) for one in found.values()] == [
        ("ok", ""), ("warning", "set table.create.properties.replication_num: 1, or start more")
    ]  # fmt: skip
    tags = {"replication_allocation": "tag.location.a: 2, tag.location.b: 1"}
    assert [wanted_replicas(given, 3) for given in ({}, {"Replication_Num": "2"}, tags)] == [3, 2, 3]
