"""Conformance tests for sinks. Subclass `SinkConformance` and define a `harness` fixture."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any, ClassVar

import pytest

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Kind,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import KeylessRows, Sink, StoredTable
from cdc.testing.blocks import Row, block
from cdc.testing.copy_conformance import CopyConformance, in_place
from cdc.testing.crashes import FailAt
from cdc.testing.delivery_conformance import (
    ID,
    KEYED,
    KEYLESS,
    LOG,
    NAME,
    ORDERS,
    DeliveryConformance,
    by_id,
    keyed,
    keyless,
    prepare,
    row,
)
from cdc.testing.list_source import ListSource
from cdc.testing.memory import run_in_memory
from cdc.testing.sink_harness import SinkHarness


class SinkConformance(DeliveryConformance, CopyConformance):
    """Conformance tests of a sink. A subclass defines a fixture `harness`: a `SinkHarness` on a new location.

    Class attributes:
        values: types with two values each that a table supports; a system without all the default ones sets its own.
    """

    values: ClassVar[Sequence[tuple[str, tuple[Any, Any]]]] = ()

    # rows of tables with a key

    def test_one_keys_changes_stay_in_order(self, harness: SinkHarness) -> None:
        """Across blocks and across the parts of a batch."""
        sink = harness.sink()
        first = [keyed("+I", row(1, "a"), "+I", row(2, "x")), keyed("-U", row(1, "a"), "+U", row(1, "b"))]
        second = [keyed("-U", row(1, "b"), "+U", row(1, "c"), "-D", row(2, "x"))]
        prepared = [*prepare(sink, 0, first, create=True), *prepare(sink, 0, second, partition=1)]
        sink.commit(0, prepared)
        assert harness.rows(ORDERS) == [row(1, "c")]

    def test_updates_and_deletes_of_earlier_batches(self, harness: SinkHarness) -> None:
        """Images are applied to existing rows."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "b"), "+I", row(3))], create=True))
        sink.commit(1, prepare(sink, 1, [keyed("-U", row(1, "a"), "+U", row(1, "z"), "-D", row(2, "b"))]))
        assert by_id(harness.rows(ORDERS)) == [row(1, "z"), row(3)]

    def test_a_key_change_is_a_delete_and_an_insert(self, harness: SinkHarness) -> None:
        """Two rows may exchange keys."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "b"))], create=True))
        swap = keyed("-U", row(1, "a"), "+U", row(3, "a"), "-U", row(2, "b"), "+U", row(1, "b"))
        sink.commit(1, prepare(sink, 1, [swap, keyed("-U", row(3, "a"), "+U", row(2, "a"))]))
        assert by_id(harness.rows(ORDERS)) == [row(1, "b"), row(2, "a")]

    def test_a_row_that_is_deleted_and_inserted_again(self, harness: SinkHarness) -> None:
        """In one batch, the last image wins."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        sink.commit(1, prepare(sink, 1, [keyed("-D", row(1, "a"), "+I", row(1, "b"))]))
        assert harness.rows(ORDERS) == [row(1, "b")]

    def test_a_row_that_comes_and_goes_in_one_batch(self, harness: SinkHarness) -> None:
        """A row that is inserted and deleted in one batch never appears."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "-D", row(1, "a"))], create=True))
        assert harness.rows(ORDERS) == []

    # rows of tables without a key

    def test_equal_rows_are_all_kept(self, harness: SinkHarness) -> None:
        """A table without a key is a multiset."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1), "+I", row(1))], create=True))
        sink.commit(1, prepare(sink, 1, [keyless("+I", row(1))]))
        assert harness.rows(LOG) == [row(1)] * 3

    def test_a_delete_takes_one_of_equal_rows(self, harness: SinkHarness) -> None:
        """NULL is equal to NULL. A sink that only keeps inserts raises an error, and nothing of the task remains."""
        sink = harness.sink()
        if sink.keyless is KeylessRows.INSERTS:
            sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
            with pytest.raises(SinkError, match="without a key"):
                prepare(sink, 1, [keyless("-D", row(1))])
            assert harness.rows(LOG) == [row(1)]
            return
        sink.commit(0, prepare(sink, 0, [keyless(*["+I", row(1)] * 3, "+I", row(2, "b"))], create=True))
        sink.commit(1, prepare(sink, 1, [keyless("-D", row(1), "-U", row(2, "b"), "+U", row(2, "c"))]))
        assert by_id(harness.rows(LOG)) == [row(1), row(1), row(2, "c")]

    # schema changes

    def test_a_schema_change_then_rows(self, harness: SinkHarness) -> None:
        """Existing rows get the default of a new column."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        wide = TableSchema((ID, NAME, Column("qty", DataType(Kind.INT), default="7")), ("id",))
        sink.apply(1, [AddColumn(ORDERS, wide.columns[2])])
        sink.commit(1, prepare(sink, 1, [block(ORDERS, wide, [("+I", {**row(2, "b"), "qty": 3})])]))
        assert by_id(harness.rows(ORDERS)) == [{**row(1, "a"), "qty": 7}, {**row(2, "b"), "qty": 3}]

    def test_columns_are_renamed_retyped_and_dropped(self, harness: SinkHarness) -> None:
        """The values stay with their column."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        title = Column("title", DataType(Kind.STRING))
        if not in_place(sink, 1, [RenameColumn(ORDERS, "name", "title"), AlterColumnType(ORDERS, title, NAME)]):
            return
        sink.commit(1, prepare(sink, 1, [block(ORDERS, TableSchema((ID, title), ("id",)), [("+I", titled(2, "b"))])]))
        assert by_id(harness.rows(ORDERS)) == [titled(1, "a"), titled(2, "b")]
        sink.apply(2, [DropColumn(ORDERS, "title")])
        sink.commit(2, [])
        assert by_id(harness.rows(ORDERS)) == [{"id": 1}, {"id": 2}]

    def test_tables_are_truncated_renamed_and_dropped(self, harness: SinkHarness) -> None:
        """Each is visible once its batch is committed."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1)), keyless("+I", row(9))], create=True))
        sink.apply(1, [TruncateTable(ORDERS)])
        sink.commit(1, [])
        assert harness.rows(ORDERS) == []
        invoices = TableId("shop", "invoices")
        sink.apply(2, [RenameTable(LOG, invoices), DropTable(ORDERS)])
        sink.commit(2, [])
        assert harness.rows(invoices) == [row(9)]
        assert harness.rows(ORDERS) is None
        assert harness.rows(LOG) is None

    def test_two_tables_swap_names(self, harness: SinkHarness) -> None:
        """The whole list of changes is repeated after a crash, and must not swap back."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1)), keyless("+I", row(9))], create=True))
        swap = swap_names(ORDERS, LOG)
        sink.apply(1, swap)
        harness.sink().apply(1, swap)
        sink.commit(1, [])
        assert harness.rows(ORDERS) == [row(9)]
        assert harness.rows(LOG) == [row(1)]

    def test_the_same_swap_again_in_a_later_batch(self, harness: SinkHarness) -> None:
        """The same swap in a later batch is applied, too."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1)), keyless("+I", row(9))], create=True))
        for batch in (1, 2):
            sink.apply(batch, swap_names(ORDERS, LOG))
            sink.commit(batch, [])
        assert harness.rows(ORDERS) == [row(1)]

    @pytest.mark.parametrize(
        "change",
        [
            AddColumn(ORDERS, Column("qty", DataType(Kind.INT))),
            AlterColumnType(ORDERS, Column("name", DataType(Kind.STRING))),
            RenameColumn(ORDERS, "name", "title"),
            DropColumn(ORDERS, "name"),
            RenameTable(ORDERS, TableId("shop", "invoices")),
            TruncateTable(ORDERS),
            DropTable(ORDERS),
            CreateTable(ORDERS, KEYED),
        ],
        ids=lambda change: type(change).__name__,
    )
    def test_applying_a_schema_change_twice_changes_nothing(self, harness: SinkHarness, change: SchemaChange) -> None:
        """Each kind of change separately."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        tables = (ORDERS, TableId("shop", "invoices"))
        if not in_place(sink, 1, [change]):
            return
        before = [harness.rows(table) for table in tables]
        harness.sink().apply(1, [change])
        assert [harness.rows(table) for table in tables] == before

    def test_a_new_key(self, harness: SinkHarness) -> None:
        """From here on it identifies rows, and a column that is no longer in the key may be NULL."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "b"))], create=True))
        if not in_place(sink, 1, [AlterPrimaryKey(ORDERS, ("name",))]):
            return
        by_name = TableSchema((replace(ID, nullable=True), NAME), ("name",))
        change = [("-U", row(1, "a")), ("+U", row(5, "a")), ("-U", row(2, "b")), ("+U", {"id": None, "name": "b"})]
        sink.commit(1, prepare(sink, 1, [block(ORDERS, by_name, change)]))
        assert sorted(harness.rows(ORDERS) or [], key=itemgetter("name")) == [row(5, "a"), {"id": None, "name": "b"}]

    def test_a_new_key_that_rows_share_takes_none_of_them(self, harness: SinkHarness) -> None:
        """The change is refused where rows with the same key would become one."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "a"))], create=True))
        with suppress(ChangeRefused):
            sink.apply(1, [AlterPrimaryKey(ORDERS, ("name",))])
        assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "a")]

    # values, sizes, crashes

    def test_every_type_keeps_its_values(self, harness: SinkHarness) -> None:
        """Bounds, NULLs and odd text, value by value."""
        types = self.values or VALUES
        columns = tuple(Column(f"c{index}", DataType.parse(text)) for index, (text, _) in enumerate(types))
        schema, table = TableSchema((ID, *columns), ("id",)), TableId("shop", "types")
        rows = [
            {"id": number, **{f"c{index}": values[number] for index, (_, values) in enumerate(types)}}
            for number in range(2)
        ]
        rows.append({"id": 2, **{column.name: None for column in columns}})
        sink = harness.sink()
        sink.apply(0, [CreateTable(table, schema)])
        written = block(table, schema, [("+I", item) for item in rows])
        sink.commit(0, prepare(sink, 0, [written]))
        assert by_id(harness.rows(table)) == rows
        if type(sink).read_back is not Sink.read_back:
            assert_read_back(sink, written)

    def test_many_tables_in_one_task(self, harness: SinkHarness) -> None:
        """Their rows are interleaved."""
        tables = [TableId("shop", f"orders_{number}") for number in range(6)]
        sink = harness.sink()
        sink.apply(0, [CreateTable(table, KEYED) for table in tables])
        blocks = [block(table, KEYED, [("+I", row(round_))]) for round_ in range(3) for table in tables]
        sink.commit(0, prepare(sink, 0, blocks))
        assert [by_id(harness.rows(table)) for table in tables] == [[row(0), row(1), row(2)]] * len(tables)

    @pytest.mark.parametrize("failure", list(FailAt), ids=lambda failure: failure.name.lower())
    def test_a_crash_loses_nothing_and_doubles_nothing(self, harness: SinkHarness, failure: FailAt) -> None:
        """A kill at each step of every batch, with a table that has no key."""
        swap = swap_names(ORDERS, LOG)
        items = [
            CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS), failure,
            keyed("+I", row(1, "a")), keyless("+I", row(9)), keyless("+I", row(9)),
            TruncateTable(ORDERS), failure, keyed("+I", row(2, "b")),
            *swap, failure, block(LOG, KEYED, [("-U", row(2, "b")), ("+U", row(2, "c"))]),
        ]  # fmt: skip
        run = run_in_memory(ListSource(items), harness.sink(), restarted=harness.sink, parallelism=2)
        assert run.batches == 3
        assert harness.rows(ORDERS) == [row(9), row(9)]
        assert harness.rows(LOG) == [row(2, "c")]


VALUES: tuple[tuple[str, tuple[Any, Any]], ...] = (
    ("BOOLEAN", (True, False)),
    ("TINYINT", (-128, 127)),
    ("SMALLINT", (-32768, 32767)),
    ("INT", (-(2**31), 2**31 - 1)),
    ("BIGINT", (-(2**63), 2**63 - 1)),
    ("TINYINT UNSIGNED", (0, 255)),
    ("SMALLINT UNSIGNED", (0, 65535)),
    ("INT UNSIGNED", (0, 2**32 - 1)),
    ("BIGINT UNSIGNED", (0, 2**64 - 1)),
    ("DECIMAL(12, 2)", (Decimal("-1234567890.12"), Decimal("0.00"))),
    ("DECIMAL(38, 10)", (Decimal("9" * 28 + ".0123456789"), Decimal("-0.0000000001"))),
    ("DECIMAL(65, 30)", ("9" * 35 + "." + "1" * 30, "-0.5")),
    ("FLOAT", (1.5, -0.0)),
    ("DOUBLE", (1e308, 0.1)),
    ("CHAR(10)", ("grüße", "")),
    ("VARCHAR(64)", ("it's \"x\"\n\\", "\U0001f600")),
    ("STRING", ("a" * 100_000, " ")),
    ("JSON", ('{"a": [1, 2.50, null], "b": "ü"}', "null")),
    ("BINARY(3)", (b"\x00\xff\x00", b"abc")),
    ("VARBINARY(16)", (b"", b"\\x41")),
    ("BYTES", (bytes(range(256)), b"\x00")),
    ("DATE", (date(1000, 1, 1), date(9999, 12, 31))),
    ("TIME(6)", (-timedelta(hours=838, minutes=59, seconds=59), timedelta(hours=838, microseconds=1))),
    ("TIMESTAMP(6)", (datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))),
    ("TIMESTAMP_LTZ(6)", (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 7, 1, tzinfo=UTC))),
    ("GEOMETRY", (bytes(4) + b"\x01\x01\0\0\0" + bytes(16), b"\xe6\x10\0\0\x01\x01\0\0\0" + b"\x01" * 16)),
    ("VECTOR(3)", ([1.0, 2.5, -3.0], [])),
)  # fmt: skip


def titled(id_: int, title: str) -> Row:
    """Return a row after the rename of the column `name` to `title`."""
    return {"id": id_, "title": title}


def swap_names(left: TableId, right: TableId) -> list[SchemaChange]:
    """Return the changes that swap the names of two tables, as in `RENAME TABLE a TO t, b TO a, t TO b`."""
    temporary = TableId(left.database, "temporary")
    return [RenameTable(left, temporary), RenameTable(right, left), RenameTable(temporary, right)]


def assert_read_back(sink: Sink, written: ChangeBlock) -> None:
    """Assert that the sink reads back the rows that `as_stored` predicts, for all rows and for some keys."""
    found = sink.read_back(written.table, written.schema)
    assert found is not None
    assert not isinstance(found, str)
    stored: StoredTable = found
    expected = stored.as_stored(written.rows)
    keys = expected.select(["id"]).slice(1)
    for chosen, expected_rows in ((None, expected), (keys, expected.slice(1))):
        batches = list(stored.rows(chosen))
        assert {batch.schema for batch in batches} == {expected.schema}
        read = [row for batch in batches for row in batch.to_pylist()]
        assert sorted(read, key=lambda row: row["id"]) == expected_rows.to_pylist()
    assert sink.read_back(TableId("shop", "absent"), written.schema) is None
