"""Schema changes: what is executed, what is refused, and that a repeat does nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tiers import one_in

from cdc.errors import ChangeRefused
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.source import Context
from cdc.state.store import LocalStore
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

pytestmark = pytest.mark.usefixtures("files_stay_open")

ORDERS, INVOICES = TableId("shop", "orders"), TableId("shop", "invoices")


def column(name: str, type_: str, **rest: Any) -> Column:
    return Column(name, DataType.parse(type_), **rest)


def schema(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(tuple(column(name, type_) for name, type_ in columns), key)


PLAIN = schema(("id", "INT"), ("name", "VARCHAR(20)"))


class Shop:
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "file.duckdb")
        self._folder = folder

    def sink(self, pipeline: str = "p") -> DuckDbSink:
        context = Context(pipeline, LocalStore(self._folder / "state"))
        return DuckDbSink(DuckDbSinkOptions(type="duckdb", path=self.path), context)

    def apply(self, *changes: SchemaChange) -> None:
        self.sink().apply(0, changes)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(self.path) as connection:
            return list(connection.execute(text).fetchall())

    def columns(self, table: str = "orders") -> list[tuple[str, str]]:
        return self.sql(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE NOT internal AND schema_name = 'shop' "
            f"AND table_name = '{table}' ORDER BY column_index"
        )


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def orders(shop: Shop) -> Shop:
    shop.apply(CreateTable(ORDERS, PLAIN))
    shop.sql("INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b')")
    return shop


def test_a_table_is_created_with_its_key_and_comments(shop: Shop) -> None:
    columns = (column("id", "BIGINT UNSIGNED"), column("it's", "TIME(6)", comment='said "so"'))
    shop.apply(CreateTable(ORDERS, TableSchema(columns, ("id",), comment="all 'orders'")))
    assert shop.columns() == [("id", "UBIGINT"), ("it's", "INTERVAL")]
    described = shop.sink().describe(ORDERS)
    assert described is not None
    assert described.primary_key == ("id",)
    assert described.comment == "all 'orders'"
    assert described.column("it's").comment == 'said "so"'


def test_a_database_may_be_called_as_the_file_is(tmp_path: Path) -> None:
    sink = DuckDbSink(
        DuckDbSinkOptions(type="duckdb", path=str(tmp_path / "shop.duckdb")), Context("p", LocalStore(tmp_path))
    )
    sink.apply(
        0,
        [CreateTable(ORDERS, PLAIN), CreateTable(TableId("temp", "x"), PLAIN), CreateTable(TableId("", "t"), PLAIN)],
    )
    assert [sink.describe(table) is not None for table in (ORDERS, TableId("temp", "x"), TableId("", "t"))] == [
        True
    ] * 3


def test_columns_are_added_with_the_default_for_old_rows_only(orders: Shop) -> None:
    orders.apply(
        AddColumn(ORDERS, column("qty", "INT", default="7", nullable=False)),
        AddColumn(ORDERS, column("made", "TIMESTAMP", default="CURRENT_TIMESTAMP")),
        AddColumn(ORDERS, column("raw", "BINARY(2)", default="ab")),
        AddColumn(ORDERS, column("bits", "BINARY(2)", default="b'100000001'")),
        AddColumn(ORDERS, column("on", "BOOLEAN", default="b'1'")),
        AddColumn(ORDERS, column("span", "TIME", default="-838:59:59")),
        AddColumn(ORDERS, column("price", "DECIMAL(5, 2)", default="1.50")),
    )
    orders.sql("INSERT INTO shop.orders (id) VALUES (3)")
    assert orders.sql(
        'SELECT qty, made, raw, bits, "on", span::VARCHAR, price::VARCHAR '
        "FROM shop.orders WHERE id IN (1, 3) ORDER BY id"
    ) == [(7, None, b"ab", b"\x01\x01", True, "-838:59:59", "1.50"), (None,) * 7]


def test_types_are_changed_in_place_and_in_the_key(orders: Shop) -> None:
    orders.apply(
        AddColumn(ORDERS, column("price", "DECIMAL(30, 30)", default="0.5")),
        AlterColumnType(ORDERS, column("id", "BIGINT", nullable=False), column("id", "INT")),
        AlterColumnType(ORDERS, column("price", "VARCHAR(40)"), column("price", "DECIMAL(30, 30)")),
    )
    assert orders.columns() == [("id", "BIGINT"), ("name", "VARCHAR"), ("price", "VARCHAR")]
    assert orders.sql("SELECT id, price FROM shop.orders ORDER BY id") == [(1, "0.5" + "0" * 29), (2, "0.5" + "0" * 29)]
    with pytest.raises(duckdb.ConstraintException):
        orders.sql("INSERT INTO shop.orders (id) VALUES (1)")


def test_a_column_before_the_key_is_dropped(shop: Shop) -> None:
    shop.apply(CreateTable(ORDERS, schema(("note", "INT"), ("id", "INT"), ("name", "STRING"))))
    shop.sql("INSERT INTO shop.orders VALUES (1, 2, 'a')")
    shop.apply(DropColumn(ORDERS, "note"))
    assert shop.sql("SELECT * FROM shop.orders") == [(2, "a")]
    assert shop.columns() == [("id", "INTEGER"), ("name", "VARCHAR")]


def test_key_columns_are_renamed_and_dropped(shop: Shop) -> None:
    shop.apply(CreateTable(ORDERS, schema(("a", "INT"), ("b", "INT"), ("c", "INT"), key=("a", "b"))))
    shop.sql("INSERT INTO shop.orders VALUES (1, 2, 3)")
    shop.apply(RenameColumn(ORDERS, "a", "x"), DropColumn(ORDERS, "B"))
    described = shop.sink().describe(ORDERS)
    assert described is not None
    assert (described.names, described.primary_key) == (("x", "c"), ("x",))
    assert shop.sql("FROM shop.orders") == [(1, 3)]


def test_the_key_is_added_changed_and_removed(orders: Shop) -> None:
    for key in (("name",), ("id", "name"), (), ("id",)):
        orders.apply(AlterPrimaryKey(ORDERS, key))
        described = orders.sink().describe(ORDERS)
        assert described is not None
        assert described.primary_key == key
    assert len(orders.sql("FROM shop.orders")) == 2


def test_comments_outlive_a_rebuild(orders: Shop) -> None:
    orders.apply(
        AlterTableComment(ORDERS, "orders"),
        AlterColumnType(ORDERS, column("name", "VARCHAR(20)", comment="who")),
        AlterPrimaryKey(ORDERS, ("name",)),
    )
    described = orders.sink().describe(ORDERS)
    assert described is not None
    assert (described.comment, described.column("name").comment) == ("orders", "who")


def test_a_table_moves_to_another_database_with_its_rows_and_key(orders: Shop) -> None:
    archive = TableId("archive", "orders")
    orders.apply(RenameTable(ORDERS, archive))
    described = orders.sink().describe(archive)
    assert described is not None
    assert described.primary_key == ("id",)
    assert orders.sql("SELECT count(*) FROM archive.orders") == [(2,)]
    assert orders.sink().describe(ORDERS) is None


def test_a_name_changes_its_case(orders: Shop) -> None:
    orders.apply(
        RenameTable(ORDERS, TableId("shop", "Orders")), RenameColumn(TableId("shop", "Orders"), "name", "Name")
    )
    assert orders.columns("Orders") == [("id", "INTEGER"), ("Name", "VARCHAR")]


def test_a_key_that_duckdb_cannot_index_is_not_declared(shop: Shop) -> None:
    timed = schema(("due", "TIME"), ("n", "INT"), key=("due",))
    shop.apply(CreateTable(ORDERS, timed))
    shop.sink("other").apply(0, [CreateTable(ORDERS, timed)])
    described = shop.sink().describe(ORDERS)
    assert described is not None
    assert described.primary_key == ()


CHANGES: list[SchemaChange] = [
    CreateTable(ORDERS, PLAIN),
    AddColumn(ORDERS, column("qty", "INT", default="3")),
    AlterColumnType(ORDERS, column("id", "BIGINT")),
    RenameColumn(ORDERS, "name", "title"),
    AlterPrimaryKey(ORDERS, ("id", "title")),
    AlterTableComment(ORDERS, "hello"),
    RenameTable(ORDERS, INVOICES),
    DropColumn(INVOICES, "qty"),
]


@pytest.mark.parametrize("start", one_in(2, range(1, len(CHANGES) + 1)))
def test_changes_repeated_from_the_middle_change_nothing(shop: Shop, start: int) -> None:
    shop.apply(*CHANGES)
    before = shop.sink().describe(INVOICES)
    assert shop.sink().plan_text(CHANGES[start:]) == []
    shop.apply(*CHANGES[start:])
    assert shop.sink().describe(INVOICES) == before
    assert shop.sink().describe(ORDERS) is None


def test_a_failed_list_of_changes_leaves_nothing_behind(orders: Shop) -> None:
    with pytest.raises(ChangeRefused):
        orders.apply(DropColumn(ORDERS, "name"), DropTable(INVOICES), AddColumn(INVOICES, column("x", "INT")))
    assert orders.columns() == [("id", "INTEGER"), ("name", "VARCHAR")]


def test_an_existing_table_gets_the_columns_it_lacks(shop: Shop) -> None:
    shop.sql("CREATE SCHEMA shop; CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, mine INT)")
    shop.apply(CreateTable(ORDERS, PLAIN))
    assert shop.columns() == [("id", "BIGINT"), ("mine", "INTEGER"), ("name", "VARCHAR")]


def _existing(sql: str) -> Callable[[Shop], None]:
    def make(shop: Shop) -> None:
        shop.sql(f"CREATE SCHEMA shop; {sql}")

    return make


@pytest.mark.parametrize(
    ("existing", "change", "message"),
    [
        (
            "CREATE TABLE shop.orders (id SMALLINT PRIMARY KEY)",
            CreateTable(ORDERS, PLAIN),
            "shop.orders: column id exists with type SMALLINT, which does not hold the source's INT "
            "(INTEGER in DuckDB) (change its type in DuckDB, drop the table, or route to another one)",
        ),
        (
            "CREATE TABLE shop.orders (id INT, name VARCHAR)",
            CreateTable(ORDERS, PLAIN),
            "shop.orders: exists with the primary key (), the source has (id) "
            "(drop it in DuckDB, or route to another table)",
        ),
        (
            "CREATE TABLE shop.Orders (id INT PRIMARY KEY)",
            CreateTable(ORDERS, PLAIN),
            "shop.orders: DuckDB takes it for the table shop.Orders, which exists: names are "
            "case-insensitive (give one of them another name with a route)",
        ),
        (
            "CREATE TABLE shop.orders (id INT, name DATE)",
            AddColumn(ORDERS, column("name", "INT")),
            "shop.orders: column name exists with type DATE, which does not hold the source's INT (INTEGER in DuckDB) "
            "(change its type in DuckDB, drop the table, or route to another one)",
        ),
        (
            "",
            DropColumn(ORDERS, "name"),
            "shop.orders: the table does not exist "
            "(it was dropped or renamed in DuckDB; restore it, or start with a new --state-dir)",
        ),
        (
            "CREATE TABLE shop.orders (id INT)",
            RenameColumn(ORDERS, "name", "title"),
            "shop.orders: there is no column name (it was dropped or renamed in DuckDB; add it again)",
        ),
        (
            "CREATE TABLE shop.orders (a INT, b INT)",
            RenameColumn(ORDERS, "a", "b"),
            "shop.orders: column a cannot be renamed to b: that column exists "
            "(rename or drop the other column in DuckDB; if an earlier pipeline left the table there, drop it "
            "and start over with an empty --state-dir)",
        ),
        (
            "CREATE TABLE shop.orders (a INT); CREATE TABLE shop.invoices (a INT)",
            RenameTable(ORDERS, INVOICES),
            "shop.orders: cannot be renamed to shop.invoices: that table exists "
            "(drop or rename the other table in DuckDB)",
        ),
        (
            "",
            CreateTable(TableId("_cdc", "commits"), PLAIN),
            "_cdc.commits: the schema _cdc holds this tool's own records "
            "(give the table another database with a route)",
        ),
        (
            "",
            CreateTable(ORDERS, schema(("__cdc_kind", "INT"), key=())),
            "shop.orders: column __cdc_kind: names that start with __cdc_ are used while loading "
            "(rename the column in the source)",
        ),
    ],
)  # fmt: skip
def test_refusals_name_the_table_the_reason_and_the_next_step(
    shop: Shop, existing: str, change: SchemaChange, message: str
) -> None:
    _existing(existing)(shop)
    with pytest.raises(ChangeRefused) as refused:
        shop.apply(change)
    assert str(refused.value) == message


def test_an_index_of_the_users_own_is_named_as_the_obstacle(orders: Shop) -> None:
    orders.sql("CREATE INDEX mine ON shop.orders (name)")
    with pytest.raises(ChangeRefused, match="drop the index or view"):
        orders.apply(DropColumn(ORDERS, "name"))


def test_a_table_built_aside_takes_the_place_of_another(orders: Shop) -> None:
    """As the online schema change tools do: create aside, then swap in one statement."""
    aside, old = TableId("shop", "_orders_new"), TableId("shop", "_orders_old")
    orders.apply(CreateTable(aside, schema(("id", "INT"))), RenameTable(ORDERS, old), RenameTable(aside, ORDERS))
    assert orders.columns("orders") == [("id", "INTEGER")]
    assert orders.sql("SELECT count(*) FROM shop._orders_old") == [(2,)]


def test_statements_are_shown_and_not_executed(shop: Shop) -> None:
    changes = [CreateTable(ORDERS, PLAIN), AddColumn(ORDERS, column("qty", "INT")), TruncateTable(INVOICES)]
    assert shop.sink().plan_text(changes) == [
        'CREATE SCHEMA "file"."shop"',
        'CREATE TABLE "file"."shop"."orders" ("id" INTEGER, "name" VARCHAR, PRIMARY KEY ("id"))',
        'ALTER TABLE "file"."shop"."orders" ADD COLUMN "qty" INTEGER',
    ]
    assert not Path(shop.path).exists()
    assert shop.sink().describe(ORDERS) is None


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("DOUBLE", "1e30", "VARCHAR(40)"),
        ("FLOAT", "1", "BYTES"),
        ("STRING", "'[1,2 ]'", "JSON"),
        ("INT", "5", "BINARY(1)"),
        ("INT", "5", "STRING"),
        ("STRING", "'5'", "INT"),
        ("BINARY(1)", "'5'::BLOB", "INT"),
        ("VARBINARY(5)", "'abc'::BLOB", "VARBINARY(2)"),
        ("INT", "5", "DECIMAL(65, 30)"),
        ("DECIMAL(10, 2)", "1.5", "DECIMAL(45, 4)"),
        ("VARCHAR(9)", "'a'", "BINARY(3)"),
        ("TIMESTAMP(6)", "'2020-01-01 00:00:00.5'", "TIMESTAMP(0)"),
        ("TIMESTAMP", "'2020-07-01 00:00:00'", "TIMESTAMP_LTZ"),
        ("TIME(3)", "'01:00:00'", "TIME(0)"),
    ],
)
def test_values_that_the_source_may_have_made_otherwise_are_refused(
    shop: Shop, before: str, value: str, after: str
) -> None:
    old = column("c", before)
    shop.apply(CreateTable(ORDERS, schema(("id", "INT"), ("c", before))))
    shop.sql(f"INSERT INTO shop.orders VALUES (1, {value})")
    with pytest.raises(ChangeRefused, match=r"shop\.orders: .*(differently|longer)"):
        shop.apply(AlterColumnType(ORDERS, column("c", after), old))
    shop.sql("UPDATE shop.orders SET c = NULL")
    shop.apply(AlterColumnType(ORDERS, column("c", after), old))
    assert shop.sql("SELECT c FROM shop.orders") == [(None,)]


def test_a_time_of_more_digits_is_the_same_time(shop: Shop) -> None:
    shop.apply(CreateTable(ORDERS, schema(("id", "INT"), ("c", "TIME(0)"))))
    shop.sql("INSERT INTO shop.orders VALUES (1, '01:00:00')")
    shop.apply(AlterColumnType(ORDERS, column("c", "TIME(3)"), column("c", "TIME(0)")))
    assert shop.sql("SELECT CAST(c AS VARCHAR) FROM shop.orders") == [("01:00:00",)]
