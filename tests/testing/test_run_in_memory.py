"""The doubles themselves: a wrong sink is caught by the suite, a crash restarts the batch."""

import pytest
from together import together

from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.source import Limits
from cdc.testing import FailAt, ListSink, ListSource, SinkConformance, block, images, run_in_memory

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")), Column("name", DataType.parse("STRING"))), ("id",))


def test_blocks_and_images_are_each_others_opposite() -> None:
    changes = [("+I", {"id": 1, "name": None}), ("-U", {"id": 1, "name": None}), ("+U", {"id": 1, "name": "a"})]
    assert images([block(ORDERS, SCHEMA, changes)]) == changes
    with pytest.raises(ValueError, match=r"shop\.orders has no column idd"):
        block(ORDERS, SCHEMA, [("+I", {"idd": 1})])


@together("failure", list(FailAt))
def test_a_crash_restarts_its_batch(failure: FailAt) -> None:
    sink = ListSink()
    restarts: list[ListSink] = []

    def restarted() -> ListSink:
        restarts.append(sink)
        return sink

    rows = [block(ORDERS, SCHEMA, [("+I", {"id": number})]) for number in (1, 2)]
    run = run_in_memory(ListSource([CreateTable(ORDERS, SCHEMA), rows[0], failure, rows[1]]), sink, restarted=restarted)
    assert [row["id"] for row in sink.rows(ORDERS)] == [1, 2]
    assert (run.batches, run.inserts, len(restarts)) == (1, 2, 1)


def test_limits_and_schema_changes_end_batches() -> None:
    wide = TableSchema((*SCHEMA.columns, Column("qty", DataType.parse("INT"), default="4")), ("id",))
    rows = [block(ORDERS, SCHEMA, [("+I", {"id": number})]) for number in range(3)]
    items = [CreateTable(ORDERS, SCHEMA), *rows, AddColumn(ORDERS, wide.columns[2])]
    sink = ListSink()
    run = run_in_memory(ListSource(items), sink, limits=Limits(max_bytes=1 << 20, max_rows=2), parallelism=2)
    assert run.batches == 3
    assert [row["qty"] for row in sink.rows(ORDERS)] == [4, 4, 4]
    assert ListSource(items).tables() == {ORDERS: SCHEMA}


def test_a_row_has_null_in_columns_that_it_came_without_also_in_the_key() -> None:
    sink = ListSink()
    sink.fill(ORDERS, TableSchema(SCHEMA.columns, ("id", "name")), [{"id": 1}, {"id": 2}])
    sink.change(ORDERS, "-D", {"id": 1, "name": "a"})
    sink.change(ORDERS, "-D", {"id": 2, "name": None})
    assert sink.rows(ORDERS) == [{"id": 1}]


class Forgetful(ListSink):
    """Commits a batch as often as it is asked to."""

    def commit(self, batch, prepared):  # type: ignore[no-untyped-def]
        kept = {handle.handle: list(self._prepared[handle.handle]) for handle in prepared}
        self._fence = -1
        super().commit(batch, prepared)
        self._prepared.update(kept)


class ForgetfulHarness:
    def __init__(self) -> None:
        self._sink = Forgetful()

    def sink(self) -> ListSink:
        return self._sink

    def rows(self, table: TableId) -> list[dict[str, object]] | None:
        return self._sink.rows(table) if table in self._sink.tables else None


def test_the_suite_catches_a_sink_that_commits_twice() -> None:
    with pytest.raises(AssertionError):
        SinkConformance().test_committing_twice_changes_nothing(ForgetfulHarness())
