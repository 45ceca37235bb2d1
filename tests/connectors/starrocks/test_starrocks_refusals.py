"""Bad input: each ends with an error that says what, where and the next step, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from sink_calls import created
from starrocks_harness import Harness, sink_options
from starrocks_servers import StarRocksServer

from cdc.errors import ChangeRefused, LoadsLost, SinkError, SinkUnavailable
from cdc.schema import AddColumn, AlterColumnType, Column, CreateTable, DataType, TableId, TableSchema
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import block
from cdc.testing.delivery_conformance import ID, KEYED, LOG, ORDERS, keyed, keyless, prepare, row
from connectors.shared.streamload.table_load import STRICT
from connectors.starrocks.sink import StarRocksSink

pytestmark = pytest.mark.slow  # a stand-in at work

ADDED = AddColumn(ORDERS, Column("qty", DataType.parse("INT")))


def standin_of(harness: Harness):  # type: ignore[no-untyped-def]
    standin = harness.server.standin
    assert standin is not None
    return standin


def load(sink: StarRocksSink) -> None:
    prepare(sink, 0, [keyed("+I", row(1))])


def test_a_wrong_password(harness: Harness) -> None:
    sink = harness.sink(password="wrong-secret")
    for call in (lambda: sink.apply(0, [CreateTable(ORDERS, KEYED)]), lambda: sink.describe(ORDERS)):
        with pytest.raises(SinkError, match="access denied") as caught:
            call()
        assert caught.value.exit_code == 4
        assert not caught.value.retryable
        assert "wrong-secret" not in str(caught.value)


def test_a_wrong_password_for_loads(harness: Harness) -> None:
    prepare(harness.sink(), 0, [keyed("+I", row(1))], create=True)
    sink = harness.sink(password="wrong-secret")
    sink._sql = harness.sink()._sql
    with pytest.raises(SinkError, match="access denied") as caught:
        load(sink)
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize("granted", [["SELECT"], ["SELECT", "INSERT"]])
def test_missing_privileges(harness: Harness, granted: list[str]) -> None:
    harness.sink().apply(0, [CreateTable(ORDERS, KEYED)])
    user = f"u_{len(granted)}"
    harness.server.query(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'p'")
    for privilege in granted:
        harness.server.query(f"GRANT {privilege} ON ALL TABLES IN DATABASE shop TO USER '{user}'@'%'")
    sink = harness.sink(username=user, password="p")
    load_or_alter = (lambda: sink.apply(0, [ADDED])) if "INSERT" in granted else (lambda: load(sink))
    with pytest.raises(SinkError, match=r"(?i)denied") as caught:
        load_or_alter()
    assert "GRANT" in caught.value.hint


def test_a_table_that_is_not_there(harness: Harness) -> None:
    with pytest.raises(SinkError, match="the table does not exist"):
        prepare(harness.sink(), 0, [keyed("+I", row(1))])


def test_a_database_that_was_dropped_between_prepare_and_commit(harness: Harness) -> None:
    sink = harness.sink()
    prepared = prepare(sink, 0, [keyed("+I", row(1))], create=True)
    harness.server.query("DROP DATABASE shop FORCE")
    with pytest.raises(SinkError, match="shop") as caught:
        sink.commit(0, prepared)
    assert caught.value.hint


def test_no_front_end(tmp_path: Path) -> None:
    server = StarRocksServer("127.0.0.1", 1, 1, 1)
    sink = StarRocksSink(sink_options(server), Context("p", LocalStore(tmp_path)))
    with pytest.raises(SinkUnavailable, match="cannot be reached") as caught:
        sink.apply(0, [CreateTable(ORDERS, KEYED)])
    assert "127.0.0.1:1" in str(caught.value)


def test_no_back_end(harness: Harness) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    standin_of(harness).be_down()
    with pytest.raises(SinkUnavailable, match="cannot be reached"):
        prepare(sink, 0, [keyed("+I", row(1))])


def test_a_prepared_load_that_expired_is_never_guessed_at(harness: Harness) -> None:
    sink = harness.sink(**{"sink.prepared-timeout": "60 s"})
    prepared = prepare(sink, 0, [keyed("+I", row(1))], create=True)
    standin_of(harness).advance(120)
    with pytest.raises(LoadsLost, match="has aborted a prepared load") as caught:
        sink.commit(0, prepared)
    assert caught.value.tables == {"shop.orders": 0}
    assert "sink.prepared-timeout" in caught.value.hint


def test_a_label_that_the_server_has_forgotten_is_never_guessed_at(harness: Harness) -> None:
    sink = harness.sink()
    prepared = prepare(sink, 0, [keyed("+I", row(1))], create=True)
    sink.commit(0, prepared)
    standin_of(harness).advance(4 * 86_400)
    with pytest.raises(LoadsLost, match="does not know the label") as caught:
        sink.commit(0, prepared)
    assert "label_keep_max_num" in caught.value.hint


def test_a_key_that_the_server_finds_too_long(harness: Harness) -> None:
    """Where the limit of the options is higher than the back ends'."""
    schema, table = TableSchema((Column("k", DataType.parse("VARCHAR(100)")),), ("k",)), TableId("shop", "long")
    changes = block(table, schema, [("+I", {"k": "x" * 150})])
    sink = created(harness.sink(**{"sink.max-key-bytes": 1000}), table, schema)
    with pytest.raises(SinkError, match="primary key size exceed the limit") as caught:
        prepare(sink, 0, [changes])
    assert "primary_key_limit_size" in caught.value.hint
    assert not caught.value.retryable
    assert set(harness.states()) <= {"ABORTED"}


def test_a_key_that_is_too_long_is_found_before_it_is_sent(harness: Harness) -> None:
    schema, table = TableSchema((Column("k", DataType.parse("VARCHAR(100)")),), ("k",)), TableId("shop", "long")
    sink = created(harness.sink(), table, schema)
    with pytest.raises(SinkError, match="longer than the server's 128 bytes"):
        prepare(sink, 0, [block(table, schema, [("+I", {"k": "x" * 150})])])


def test_a_value_that_does_not_fit_names_column_key_and_position(harness: Harness) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    wide = TableSchema((ID, Column("name", DataType.parse("STRING"))), ("id",))
    changes = block(ORDERS, wide, [("+I", row(7, "é" * 129))], sequence=1234)
    with pytest.raises(SinkError, match=r"258 bytes is too long for VARCHAR\(256\)") as caught:
        prepare(sink, 0, [changes])
    assert caught.value.where.startswith("shop.orders.name, row id=7 at 1234")


@pytest.mark.parametrize(("policy", "left"), [("null", row(7)), ("truncate", row(7, "é" * 128))])
def test_values_that_do_not_fit_are_changed_and_counted(harness: Harness, policy: str, left: object) -> None:
    sink = created(harness.sink(**{"sink.invalid-values": policy}), ORDERS, KEYED)
    wide = TableSchema((ID, Column("name", DataType.parse("STRING"))), ("id",))
    prepared = prepare(sink, 0, [block(ORDERS, wide, [("+I", row(7, "é" * 129))])])
    sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [left]
    assert sum(prepared[0].counts.values()) == 1


def test_rows_that_do_not_fit_go_to_files(harness: Harness, tmp_path: Path) -> None:
    sink = created(
        harness.sink(**{"sink.invalid-values": "dead-letter", "sink.dead-letter.path": str(tmp_path / "dead")}),
        ORDERS,
        KEYED,
    )
    wide = TableSchema((ID, Column("name", DataType.parse("STRING"))), ("id",))
    prepared = prepare(sink, 0, [block(ORDERS, wide, [("+I", row(7, "é" * 129)), ("+I", row(8, "b"))])])
    sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(8, "b")]
    (letters,) = (tmp_path / "dead").rglob("*.jsonl")
    assert '"too-long"' in letters.read_text()


def test_keyless_changes_are_skipped_and_counted_when_asked(harness: Harness) -> None:
    sink = harness.sink(**{"sink.keyless-changes": "skip"})
    prepared = prepare(sink, 0, [keyless("+I", row(1), "-D", row(1))], create=True)
    sink.commit(0, prepared)
    assert harness.rows(LOG) == [row(1)]
    assert sum(prepared[0].counts.values()) == 1


def test_a_window_of_deletes_that_are_not_wanted_leaves_no_transaction(harness: Harness) -> None:
    sink = harness.sink(**{"sink.enable-delete": False})
    prepared = prepare(sink, 0, [keyed("-D", row(1))], create=True)
    sink.commit(0, prepared)
    assert harness.states() == []
    assert prepared[0].deletes == 1


def test_a_schema_change_that_the_server_cancels(harness: Harness) -> None:
    sink = created(harness.sink(**{"table.create.properties.fast_schema_evolution": "false"}), ORDERS, KEYED)
    standin_of(harness).fault("alter", action="refuse", message="no memory")
    with pytest.raises(ChangeRefused, match="cancelled: no memory"):
        sink.apply(0, [ADDED])
    harness.sink().apply(0, [ADDED])
    described = sink.describe(ORDERS)
    assert described is not None
    assert described.names == ("id", "name", "qty")


def test_a_schema_change_that_waits_for_somebody_elses_load_gives_up_with_the_reason(harness: Harness) -> None:
    options = {"table.create.properties.fast_schema_evolution": "false", "table.schema-change.timeout": "0.2 s"}
    sink = created(harness.sink(**options), ORDERS, KEYED)
    foreign = harness.sink(**{"sink.label-prefix": "foreign"})
    prepared = prepare(foreign, 0, [keyed("+I", row(1))])
    with pytest.raises(SinkUnavailable, match="is WAITING_TXN"):
        sink.apply(0, [ADDED])
    foreign.commit(0, prepared)
    harness.sink().apply(0, [ADDED])
    described = sink.describe(ORDERS)
    assert described is not None
    assert described.names == ("id", "name", "qty")


def test_values_that_the_source_may_have_converted_otherwise_stop_the_change(harness: Harness) -> None:
    table, old = TableId("shop", "t"), Column("x", DataType.parse("DOUBLE"))
    schema = TableSchema((ID, old), ("id",))
    change = AlterColumnType(table, Column("x", DataType.parse("VARCHAR(64)")), old)
    sink = created(harness.sink(), table, schema)
    sink.commit(0, prepare(sink, 0, [block(table, schema, [("+I", {"id": 1, "x": 1e30})])]))
    with pytest.raises(ChangeRefused, match="may come out differently"):
        sink.apply(0, [change])


def test_a_replication_number_that_the_cluster_cannot_have(harness: Harness) -> None:
    sink = harness.sink(**{"table.create.properties.replication_num": "3"})
    with pytest.raises(ChangeRefused) as caught:
        sink.apply(0, [CreateTable(ORDERS, KEYED)])
    assert "table.create.properties.replication_num" in caught.value.hint


def test_leftovers_are_rolled_back_at_a_start_by_an_account_that_may_list_nothing(harness: Harness) -> None:
    prepare(harness.sink(), 0, [keyed("+I", row(1, "lost"))], create=True)
    sink = harness.sink()  # the stand-in lists no loads, to anybody
    sink.abort(0)
    assert harness.states() == ["ABORTED"]
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "kept"))]))
    assert harness.rows(ORDERS) == [row(1, "kept")]
    assert sorted(harness.states()) == ["ABORTED", "VISIBLE"]


def test_rows_that_are_committed_already_are_loaded_again_only_into_a_table_with_a_key(harness: Harness) -> None:
    """The state directory is older than the tables."""
    sink = harness.sink()
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a")), keyless("+I", row(9))], create=True))
    prepared = prepare(sink, 0, [keyed("+I", row(1, "b"))])
    sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(1, "b")]
    with pytest.raises(SinkError, match="committed rows of this very load"):
        prepare(sink, 0, [keyless("+I", row(9))])
    assert harness.rows(LOG) == [row(9)]


def test_the_error_log_of_filtered_rows_is_read(harness: Harness) -> None:
    sink = created(harness.sink(), ORDERS, KEYED)
    transactions = sink._transactions
    transactions.begin(ORDERS, "by-hand")
    upload = transactions.load(ORDERS, "by-hand", {**STRICT, "columns": "id,name"})
    assert upload.write(b"no number\ta\n")
    upload.finish()
    reply = transactions.prepare(ORDERS, "by-hand")
    assert not reply.ok
    assert "no number" in transactions.error_rows(reply)
