"""Whatever the changes, the table equals a plain Python model of it.

Examples are not shrunk: each costs a tenth of a second of file access, and the draws of a failure are printed anyway.
"""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sink_calls import created

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import ListSink, ListSource, block, run_in_memory
from connectors.duckdb import load as load_module
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.shared.staging import stage as stage_module

pytestmark = pytest.mark.usefixtures("files_stay_open")

TABLES = (TableId("shop", "a"), TableId("shop", "b"))
COLUMNS = (
    Column("id", DataType.parse("BIGINT")),
    Column("part", DataType.parse("VARCHAR(3)")),
    Column("doc", DataType.parse("JSON")),
    Column("span", DataType.parse("TIME(6)")),
    Column("raw", DataType.parse("BYTES")),
    Column("spot", DataType.parse("VECTOR(2)")),
)
Row = dict[str, Any]


def sink_at(folder: Path) -> DuckDbSink:
    return DuckDbSink(
        DuckDbSinkOptions(type="duckdb", path=str(folder / "x.duckdb")), Context("p", LocalStore(folder / "state"))
    )


def rows_at(folder: Path, table: TableId) -> list[Row]:
    with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
        cursor = connection.execute(f'FROM x."{table.database}"."{table.table}"')
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def multiset(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows)


def counts(prepared: list[Prepared]) -> Counter[tuple[TableId, str]]:
    """Changes by table and kind."""
    return sum(
        (
            Counter({(item.table, name): getattr(item, name) for name in ("inserts", "updates", "deletes")})
            for item in prepared
        ),
        Counter(),
    )


rest = st.fixed_dictionaries(
    {
        "doc": st.sampled_from([None, '{"a": 1}', "[]"]),
        "span": st.sampled_from([None, timedelta(hours=-30), timedelta(hours=30)]),
        "raw": st.sampled_from([None, b"", b"\x00"]),
        "spot": st.sampled_from([None, [1.0, 2.0]]),
    }
)
keys = st.tuples(st.integers(1, 3), st.sampled_from(["", "A", "a"]))


class Log:
    """Makes a log that a database could have written: rows exist before they change."""

    def __init__(self, key: tuple[str, ...], data: st.DataObject) -> None:
        self.schema = TableSchema(COLUMNS, key)
        self._data = data
        self._rows: dict[TableId, list[Row]] = {table: [] for table in TABLES}

    def block(self) -> ChangeBlock:
        table = self._data.draw(st.sampled_from(TABLES))
        changes: list[tuple[str, Row]] = []
        for _ in range(self._data.draw(st.integers(1, 6))):
            changes.extend(self._change(self._rows[table]))
        return block(table, self.schema, changes)

    def _change(self, rows: list[Row]) -> list[tuple[str, Row]]:
        what = self._data.draw(st.sampled_from(["insert", "insert", "update", "delete"]))
        new = self._row()
        old = self._data.draw(st.sampled_from(rows)) if rows and what != "insert" else None
        key = self.schema.primary_key
        taken = key and any(all(row[name] == new[name] for name in key) for row in rows if row is not old)
        if old is None:
            return [] if taken else [("+I", rows.append(new) or new)]
        if what == "update" and taken:
            new = {**new, **{name: old[name] for name in key}}
        rows.pop(next(place for place, row in enumerate(rows) if row is old))
        if what == "delete":
            return [("-D", old)]
        rows.append(new)
        return [("-U", old), ("+U", new)]

    def _row(self) -> Row:
        id_, part = self._data.draw(keys)
        row = {"id": id_, "part": part, **self._data.draw(rest)}
        no_null = {name: timedelta() for name in self.schema.primary_key if row[name] is None}
        return {**row, **no_null}


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0, 10_000], ids=["each alone", "sharing"])
@pytest.mark.parametrize("key", [(), ("id", "part"), ("part", "id", "span")], ids=["no key", "key", "odd key"])
@settings(
    max_examples=8,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_the_table_equals_the_model(
    key: tuple[str, ...], shared: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    monkeypatch.setattr(load_module, "_SHARED_ROWS", shared)
    folder = tmp_path_factory.mktemp("property")
    log, model, sink = Log(key, data), ListSink(), sink_at(folder)
    create = [CreateTable(table, log.schema) for table in TABLES]
    model.apply(0, create)
    sink.apply(0, create)
    for batch in range(data.draw(st.integers(1, 4))):
        prepared: list[Prepared] = []
        expected: list[Prepared] = []
        for partition in range(data.draw(st.integers(1, 2))):
            blocks = [log.block() for _ in range(data.draw(st.integers(0, 4)))]
            task = TaskAttempt(batch, partition, 0)
            prepared.extend(sink.prepare(task, iter(blocks)))
            expected.extend(model.prepare(task, iter(blocks)))
        assert counts(prepared) == counts(expected)
        sink.commit(batch, prepared)
        model.commit(batch, expected)
        for table in TABLES:
            assert multiset(rows_at(folder, table)) == multiset(model.rows(table))


KEYED = TableSchema(COLUMNS[:2], ("id",))
KEYLESS = TableSchema(COLUMNS[:2])


@pytest.mark.parametrize("shared", [0, 10_000], ids=["streamed", "at once"])
@pytest.mark.parametrize("one", [1, timedelta(hours=30), [1.0, 2.0]], ids=["indexed", "span", "vector"])
def test_a_log_entered_in_the_middle_replaces_rows_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: Any, shared: int
) -> None:
    """The optimistic insert meets a key that is there, and the batch is loaded again key by key."""
    monkeypatch.setattr(load_module, "_SHARED_ROWS", shared)
    key = {int: COLUMNS[0], timedelta: COLUMNS[3], list: COLUMNS[5]}[type(one)]
    table, keyed = TABLES[0], TableSchema((replace(key, name="id"), COLUMNS[1]), ("id",))
    first = [CreateTable(table, keyed), block(table, keyed, [("+I", {"id": one, "part": "old"})])]
    run_in_memory(ListSource(first), sink_at(tmp_path))
    again = [block(table, keyed, [("+I", {"id": one, "part": "new"}), ("+I", {"id": one * 2, "part": "x"})])]
    again.append(block(TABLES[1], keyed, [("+I", {"id": one, "part": "b"})]))
    sink_at(tmp_path).apply(0, [CreateTable(TABLES[1], keyed)])
    run_in_memory(ListSource(again), sink_at(tmp_path), first_batch=1)
    assert sorted(row["part"] for row in rows_at(tmp_path, table)) == ["new", "x"]
    assert rows_at(tmp_path, TABLES[1]) == [{"id": one, "part": "b"}]


@pytest.mark.parametrize("shared", [0, 10_000], ids=["streamed", "at once"])
@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["key", "no key"])
def test_an_image_before_an_update_without_the_one_after_it_takes_the_row_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: TableSchema, shared: int
) -> None:
    """It counts as no change, and makes the batch more than inserts all the same."""
    monkeypatch.setattr(load_module, "_SHARED_ROWS", shared)
    table, sink = TABLES[0], sink_at(tmp_path)
    sink.apply(0, [CreateTable(table, schema)])
    changes = [("+I", {"id": 1, "part": "a"}), ("+I", {"id": 2, "part": "b"}), ("-U", {"id": 1, "part": "a"})]
    sink.commit(0, sink.prepare(TaskAttempt(0, 0, 0), iter([block(table, schema, changes)])))
    assert rows_at(tmp_path, table) == [{"id": 2, "part": "b"}]


@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["key", "no key"])
@pytest.mark.parametrize(("rows", "size"), [(1, 1 << 20), (4, 1 << 20), (122_880, 100)], ids=["ones", "fours", "bytes"])
def test_many_inserts_are_streamed_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: TableSchema, rows: int, size: int
) -> None:
    monkeypatch.setattr(load_module, "_SHARED_ROWS", 10)
    monkeypatch.setattr(load_module, "ROW_GROUP", rows)
    monkeypatch.setattr(load_module, "PIECE_BYTES", size)
    monkeypatch.setattr(stage_module, "_TABLE_BYTES", 100)
    table, sink = TABLES[0], sink_at(tmp_path)
    sink.apply(0, [CreateTable(table, schema)])
    numbers = [range(start, start + 7) for start in range(0, 70, 7)]
    blocks = [block(table, schema, [("+I", {"id": number, "part": "x"}) for number in part]) for part in numbers]
    prepared = [
        *sink.prepare(TaskAttempt(0, 1, 0), iter(blocks[5:])),
        *sink.prepare(TaskAttempt(0, 0, 0), iter(blocks[:5])),
    ]
    sink.commit(0, prepared)
    assert multiset(rows_at(tmp_path, table)) == multiset([{"id": number, "part": "x"} for number in range(70)])


def test_a_log_entered_in_the_middle_deletes_what_is_there_and_says_so(tmp_path: Path) -> None:
    table, sink = TABLES[0], sink_at(tmp_path)
    changes = [("-D", {"id": 1}), ("+I", {"id": 1}), ("-D", {"id": 7}), ("-U", {"id": 8}), ("+U", {"id": 9})]
    sink.apply(0, [CreateTable(table, KEYLESS)])
    prepared = sink.prepare(TaskAttempt(0, 0, 0), iter([block(table, KEYLESS, changes)]))
    assert sink.commit(0, prepared) == {"delete-without-row shop.a": 3}
    assert sorted(row["id"] for row in rows_at(tmp_path, table)) == [1, 9]
    assert sink.commit(0, prepared) == {}


def test_a_null_in_a_key_is_refused_before_anything_is_decided(tmp_path: Path) -> None:
    table, sink = TABLES[0], sink_at(tmp_path)
    sink.apply(0, [CreateTable(table, KEYED)])
    good = block(table, KEYED, [("+I", {"id": 1, "part": "a"})], sequence=1)
    bad = block(table, KEYED, [("+I", {"id": 2, "part": "b"}), ("+I", {"part": "c"})], sequence=4711)
    bad = replace(bad, position_text="log 3:{}".format)
    with pytest.raises(SinkError, match="the key column id is NULL") as caught:
        sink.prepare(TaskAttempt(0, 0, 0), iter([good, bad]))
    assert caught.value.where == "shop.a at log 3:4711"


def test_rows_of_a_user_constraint_that_refuses_them_stop_the_pipeline(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE SCHEMA shop; CREATE TABLE shop.a (id BIGINT PRIMARY KEY, part VARCHAR NOT NULL)")
    run = [CreateTable(TABLES[0], KEYED), block(TABLES[0], KEYED, [("+I", {"id": 1})])]
    with pytest.raises(Exception, match=r"NOT NULL constraint failed") as refused:
        run_in_memory(ListSource(run), sink_at(tmp_path))
    assert "x.duckdb" in str(refused.value)


def test_a_task_without_rows_leaves_no_file(tmp_path: Path) -> None:
    sink = DuckDbSink(
        DuckDbSinkOptions(type="duckdb", path=str(tmp_path / "out.duckdb")), Context("p", LocalStore(tmp_path / "sink"))
    )
    assert sink.prepare(TaskAttempt(0, 0, 0), iter(())) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_minus_zero_is_another_row_than_zero_without_a_key(tmp_path: Path) -> None:
    """DuckDB takes them for equal: an update of one to the other was none, and a delete took the wrong row."""
    table, schema = (
        TABLES[0],
        TableSchema((Column("d", DataType.parse("DOUBLE")), Column("f", DataType.parse("FLOAT")))),
    )
    zero, minus, other = {"d": 0.0, "f": 1.0}, {"d": -0.0, "f": 1.0}, {"d": None, "f": -0.0}
    sink = created(sink_at(tmp_path), table, schema)
    for batch, changes in enumerate([
        [("+I", zero), ("+I", zero), ("+I", minus), ("+I", other)],
        [("-U", zero), ("+U", minus), ("-D", minus)],
        [("-D", minus), ("-U", other), ("+U", {"d": None, "f": 0.0})],
    ]):  # fmt: skip
        sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0), iter([block(table, schema, changes)])))
    assert multiset(rows_at(tmp_path, table)) == multiset([zero, {"d": None, "f": 0.0}])


def test_a_vector_with_minus_zero_is_another_row_than_one_with_zero(tmp_path: Path) -> None:
    table, schema = TABLES[0], TableSchema((Column("v", DataType.parse("VECTOR(2)")),))
    sink = created(sink_at(tmp_path), table, schema)
    for batch, changes in enumerate(
        [[("+I", {"v": [0.0, 1.0]}), ("+I", {"v": [-0.0, 1.0]})], [("-D", {"v": [-0.0, 1.0]})]]
    ):
        sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0), iter([block(table, schema, changes)])))
    assert str(rows_at(tmp_path, table)) == "[{'v': [0.0, 1.0]}]"


@pytest.mark.parametrize("name", ["rowid", "ROWID", "sign", "running", "number", "id", "t", "s"])
def test_a_column_has_a_name_that_the_statements_know_too(tmp_path: Path, name: str) -> None:
    """`rowid` hides DuckDB's number of a row: deleting one of two rows that are equal took both, and rows were not read
    back. A column `sign` was summed up as if it told inserts from deletes."""
    table = TABLES[0]
    schema = TableSchema((Column(name, DataType.parse("BIGINT")), Column("part", DataType.parse("VARCHAR(3)"))))
    sink = created(sink_at(tmp_path), table, schema)
    one, none, other = {name: 7, "part": "a"}, {name: None, "part": "b"}, {name: -7, "part": "c"}
    for batch, changes in enumerate([
        [("+I", one), ("+I", one), ("+I", one), ("+I", none), ("+I", none), ("+I", other), ("+I", other)],
        [("-D", one), ("-U", none), ("+U", one), ("-D", other), ("-D", other)],
        [("-D", other), ("+I", one), ("-D", one), ("-D", one)],
    ]):  # fmt: skip
        reported = sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0), iter([block(table, schema, changes)])))
        assert reported == ({"delete-without-row shop.a": 1} if batch == 2 else {})
    assert multiset(rows_at(tmp_path, table)) == multiset([one, one, none])
    stored = sink.read_back(table, schema)
    assert stored is not None
    assert sorted(str(row["part"]) for rows in stored.rows(None) for row in rows.to_pylist()) == ["a", "a", "b"]


@pytest.mark.parametrize("change", ["DROP COLUMN number", "ADD COLUMN more INT", "RENAME COLUMN number TO n"])
def test_a_table_that_is_changed_while_it_is_read_back_is_told_as_that(tmp_path: Path, change: str) -> None:
    """Columns were read by the places they had before: those of others, or with DuckDB's error without a next step."""
    table = TABLES[0]
    names = ("number", "part", "other")
    schema = TableSchema(tuple(Column(name, DataType.parse("BIGINT")) for name in names))
    stored = created(sink_at(tmp_path), table, schema).read_back(table, schema)
    assert stored is not None
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute(f"ALTER TABLE x.shop.a {change}")
    for keys in (None, pa.RecordBatch.from_pydict({"part": [1]})):
        with pytest.raises(SinkError, match=r"shop\.a: the table was changed while it was read \(run it again"):
            list(stored.rows(keys))


def test_blocks_of_long_texts_are_bounded_in_bytes(tmp_path: Path) -> None:
    """`cdc verify` failed with an internal error where the texts of 122,880 rows were longer than 2 GiB."""
    table, schema = TABLES[0], TableSchema((Column("t", DataType.parse("STRING")),))
    sink = created(sink_at(tmp_path), table, schema)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("INSERT INTO x.shop.a SELECT repeat('x', 20_000) FROM range(5_000)")
    stored = sink.read_back(table, schema)
    assert stored is not None
    blocks = [(len(rows), rows.nbytes) for rows in stored.rows(None)]
    assert sum(rows for rows, _ in blocks) == 5_000
    assert max(size for _, size in blocks) < 64 << 20
