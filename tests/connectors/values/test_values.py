"""Lines in, lines out; what a wrong line is told; what a crash leaves in the output."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from together import together

from cdc import events as on
from cdc.block import arrow_type
from cdc.errors import SinkError, SourceError, SourceUnavailable, SpecError
from cdc.job.control import RunControl
from cdc.job.run import run
from cdc.lines.format import block_lines, decoded, encoded
from cdc.schema import AlterColumnType, Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context, Limits
from cdc.spec.check import check_file
from cdc.state.store import LocalStore
from cdc.testing import ListSink, block, images, run_in_memory
from connectors.values.options import ValuesSinkOptions, ValuesSourceOptions
from connectors.values.sink import ValuesSink
from connectors.values.source import ValuesSource

ORDERS = TableId("shop", "orders")
CREATE = {
    "change": "create.table",
    "table": "shop.orders",
    "schema": {"columns": [{"name": "id", "type": "INT"}, {"name": "name", "type": "STRING"}], "primary_key": ["id"]},
}


def source(*rows: dict[str, Any]) -> ValuesSource:
    return ValuesSource(ValuesSourceOptions(type="values", rows=rows), Context("p", LocalStore(Path())))


def sink_at(folder: Path) -> ValuesSink:
    return ValuesSink(
        ValuesSinkOptions(type="values", path=str(folder / "out.jsonl")), Context("p", LocalStore(folder / "state"))
    )


def image(op: str, id_: int, name: str | None = None) -> dict[str, Any]:
    return {"op": op, "table": "shop.orders", "row": {"id": id_, "name": name}}


def test_rows_of_the_pipeline_file_reach_a_sink() -> None:
    sink = ListSink()
    rename = {"change": "rename.table", "table": "shop.orders", "new_table": "shop.invoices"}
    run = run_in_memory(source(CREATE, image("+I", 1, "a"), image("-U", 1, "a"), image("+U", 1, "b"), rename), sink)
    assert sink.rows(TableId("shop", "invoices")) == [{"id": 1, "name": "b"}]
    assert (run.batches, run.inserts, run.updates) == (2, 1, 1)


@pytest.mark.parametrize(("type_", "value"), [("BIGINT", -(2**63)), ("BIGINT UNSIGNED", 2**64 - 1), ("STRING", "a\0b")])
def test_rows_of_the_pipeline_file_hold_what_a_file_of_lines_holds(type_: str, value: Any) -> None:
    create = {"change": "create.table", "table": "shop.t", "schema": {"columns": [{"name": "v", "type": type_}]}}
    sink = ListSink()
    run_in_memory(source(create, {"op": "+I", "table": "shop.t", "row": {"v": value}}), sink)
    assert sink.rows(TableId("shop", "t")) == [{"v": value}]


def test_a_change_of_type_knows_the_former_type_where_the_line_leaves_it_out() -> None:
    change = {"change": "alter.column.type", "table": "shop.orders", "column": {"name": "name", "type": "VARCHAR(9)"}}
    lines = source(CREATE, change)
    (_, changed) = lines.events({"line": 0}, {"line": 2})
    assert isinstance(changed, on.TableChanged)
    assert isinstance(changed.change, AlterColumnType)
    assert changed.change.old == Column("name", DataType.parse("STRING"))


def test_what_the_sink_writes_the_source_reads_and_the_sink_writes_again(tmp_path: Path) -> None:
    lines = [CREATE, image("+I", 1, "a"), image("-U", 1, "a"), image("+U", 1, "ü\n"), image("-D", 1, "ü\n")]
    lines[1]["ts_ms"] = 1767225600000
    run_in_memory(source(*lines), sink_at(tmp_path))
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == lines


def test_transactions_end_at_commit_lines(tmp_path: Path) -> None:
    commit = {"commit": True}
    values = source(CREATE, image("+I", 1), image("+I", 2), commit, image("+I", 3), commit)
    ends = []
    at = values.initial_offset()
    while (end := values.latest_offset(at, Limits(max_bytes=1, max_rows=1), 0.0)) != at:
        ends.append(end["line"])
        at = end
    assert ends == [4, 6]


def test_a_before_image_stays_with_its_after_image() -> None:
    values = source(CREATE, image("-U", 1), image("+U", 1), image("+I", 2))
    assert values.latest_offset({"line": 1}, Limits(max_bytes=1, max_rows=1), 0.0) == {"line": 3}


@together("parallelism", [1, 2, 3, 4, 7])
def test_no_split_parts_the_images_of_an_update(parallelism: int) -> None:
    updates = [image(op, number) for number in range(3) for op in ("-U", "+U")]
    values = source(CREATE, image("+I", 1), *updates)
    splits = values.splits({"line": 0}, {"line": 8}, parallelism)
    blocks = [list(values.read(split, lambda *_: None, lambda _: None)) for split in splits]
    assert [symbol for part in blocks for symbol, _ in images(part)] == ["+I", *["-U", "+U"] * 3]
    assert {images(part)[0][0] for part in blocks if part} <= {"+I", "-U"}
    found = [each for part in blocks for each in part]
    pairs = [pair for b in found for pair in zip(b.sequence.to_pylist(), b.row.to_pylist(), strict=True)]
    assert pairs == [(2, 0), (3, 0), (3, 1), (5, 0), (5, 1), (7, 0), (7, 1)]


def test_an_update_lies_in_one_table() -> None:
    other = {**CREATE, "table": "shop.other"}
    with pytest.raises(SourceError, match=r"rows\[3\]: a -U is followed by the \+U of the same row"):
        source(CREATE, other, image("-U", 1), {**image("+U", 1), "table": "shop.other"}).tables()


def test_the_tables_are_those_after_the_last_line() -> None:
    columns: list[dict[str, Any]] = [
        {"change": "add.column", "column": {"name": "a", "type": "INT"}, "position": "first"},
        {"change": "add.column", "column": {"name": "b", "type": "INT"}, "position": {"after": "id"}},
        {"change": "alter.column.type", "column": {"name": "b", "type": "BIGINT"}},
        {"change": "rename.column", "old_name": "id", "new_name": "key"},
        {"change": "drop.column", "name": "name"},
        {"change": "alter.table.comment", "comment": "all"},
        {"change": "truncate.table"},
    ]
    values = source(CREATE, *({**change, "table": "shop.orders"} for change in columns))
    schema = values.tables()[ORDERS]
    assert (schema.names, schema.primary_key, schema.comment) == (("a", "key", "b"), ("key",), "all")
    assert str(schema.column("b").type) == "BIGINT"
    assert source(CREATE, {"change": "drop.table", "table": "shop.orders"}).tables() == {}
    rekeyed = source(CREATE, {"change": "alter.primary.key", "table": "shop.orders", "primary_key": ["name"]})
    assert rekeyed.tables()[ORDERS].primary_key == ("name",)


WRONG: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    ([], "a line is a JSON object, got []"),
    ({"row": {}}, "a line has a change, an op or a commit; got the keys row"),
    ({"commit": True, "x": 1}, "a line has a change, an op or a commit; got the keys commit, x"),
    (image("+X", 1), "op must be one of +I, -U, +U, -D, got '+X'"),
    ({**image("+I", 1), "op": []}, "op must be one of +I, -U, +U, -D, got []"),
    ({**image("+I", 1), "row": 5}, "row must be an object of column names and values, got 5"),
    ({**image("+I", 1), "ts_ms": "x"}, "ts_ms must be milliseconds since 1970, got 'x'"),
    ({**image("+I", 1), "table": "shop.other"}, "there is no table shop.other at this point; create it first"),
    ({"op": "+I", "table": "shop.orders", "row": {"idd": 1}}, "shop.orders has no column idd"),
    (image("+I", "one"), "column id: 'one' is no INT"),  # type: ignore[arg-type]
    (image("+I", 2**40), "column id: 1099511627776 does not fit INT"),
    ({"change": "alter", "table": "x"}, "unknown schema change 'alter'"),
    (
        {"change": "drop.column", "table": "shop.orders", "name": "x"},
        "a schema change does not fit the table: there is no column x",
    ),
    ({"change": "drop.table", "table": "shop.x"}, "there is no table shop.x at this point"),
    (
        {"change": "add.column", "table": "shop.orders", "column": {"name": "id", "type": "INT"}},
        "a schema change does not fit the table: column id cannot be added, it exists",
    ),
    (image("+U", 1), "a +U comes right after the -U of the same row"),
    (image("-U", 1), "a -U is followed by the +U of the same row"),
    ({**CREATE, "schema": {"columns": []}}, "a table has at least one column"),
    (
        {**CREATE, "schema": {"columns": [{"name": "a", "type": "INT"}, {"name": "A", "type": "INT"}]}},
        "column a is there twice",
    ),
    (
        {**CREATE, "schema": {"columns": [{"name": "a", "type": "INT"}], "primary_key": ["b"]}},
        "the primary key names b, which is not a column; there are a",
    ),
    (
        {**CREATE, "schema": {"columns": [{"name": "a", "type": "DECIMAL(0, 0)"}]}},
        "column a: DECIMAL(0, 0) is not a type",
    ),
]


@together("line, message", WRONG)
def test_a_wrong_line_is_named_with_its_file_and_number(tmp_path: Path, line: Any, message: str) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    (tmp_path / "log.jsonl").write_text(f"{json.dumps(CREATE)}\n\n{text}\n")
    values = ValuesSource(
        ValuesSourceOptions(type="values", path=str(tmp_path / "log.jsonl")), Context("p", LocalStore(tmp_path))
    )
    with pytest.raises(SourceError) as refused:
        run_in_memory(values, ListSink())
    assert str(refused.value).startswith(f"{tmp_path}/log.jsonl:3: {message}")
    assert refused.value.hint


def test_a_row_before_its_table_is_told_the_lines_that_do() -> None:
    with pytest.raises(SourceError, match="create it first") as refused:
        source(image("+I", 1)).tables()
    lines = refused.value.hint.removeprefix("write lines such as ").split(" and, after it, ")
    assert ORDERS in source(*map(json.loads, lines)).tables()


def test_a_wrong_row_of_the_pipeline_file_is_named_by_its_place() -> None:
    with pytest.raises(SourceError, match=r"^source\.rows\[1\]: op must be"):
        source(CREATE, image("?", 1)).tables()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    values = ValuesSource(
        ValuesSourceOptions(type="values", path=str(tmp_path / "no")), Context("p", LocalStore(tmp_path))
    )
    with pytest.raises(SourceUnavailable, match=r"cannot be read.*name a JSON-lines file"):
        values.tables()


def test_path_or_rows() -> None:
    for options in (ValuesSourceOptions(type="values"), ValuesSourceOptions(type="values", path="x", rows=())):
        assert [remark.message for remark in options.problems()] == ["needs either `path` or `rows`"]


VALUES = [
    ("DECIMAL(5, 2)", "1.50", Decimal("1.50")),
    ("DECIMAL(65, 2)", "1e3", "1000"),
    ("DECIMAL(5, 2)", 1.5, Decimal("1.5")),
    ("JSON", {"a": [1]}, '{"a": [1]}'),
    ("BYTES", "AP8=", b"\x00\xff"),
    ("TIME(6)", "-838:59:59.000001", -timedelta(hours=838, minutes=59, seconds=59, microseconds=1)),
    ("TIMESTAMP", "2026-01-31T12:00:00", datetime(2026, 1, 31, 12)),
    ("TIMESTAMP", "2026-01-31T12:00:00.000001", datetime(2026, 1, 31, 12, 0, 0, 1)),
    ("TIMESTAMP(3)", "2026-01-31T12:00:00.120000", datetime(2026, 1, 31, 12, 0, 0, 120_000)),
    ("TIME", "-00:00:00.000001", -timedelta(microseconds=1)),
    ("TIMESTAMP_LTZ", "2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ("VECTOR(2)", [1, 2.5], [1.0, 2.5]),
    ("DOUBLE", "-Infinity", float("-inf")),
    ("BOOLEAN", True, True),
    ("DOUBLE", 3, 3.0),
]


@together("type_, written, value", VALUES)
def test_values_are_read(type_: str, written: Any, value: Any) -> None:
    assert decoded(written, DataType.parse(type_)) == value


@together(
    "type_, written",
    [
        ("BOOLEAN", 1), ("INT", True), ("INT", "1"), ("INT", 1.5), ("DOUBLE", "1"),
        ("FLOAT", 1e39), ("FLOAT", 3.4028235677973366e38), ("DECIMAL(5, 2)", "one"),
        ("DECIMAL(5, 2)", "NaN"), ("STRING", 5), ("BYTES", "?"), ("BYTES", 5), ("DATE", "2026-02-30"), ("DATE", 5),
        ("TIME", "12:00"), ("TIMESTAMP", "2026-01-31T12:00:00Z"), ("TIMESTAMP_LTZ", "2026-01-31T12:00:00"),
        ("VECTOR(1)", 1.0), ("VECTOR(1)", ["x"]), ("TIME", "00:60:00"), ("TIME", "00:00:60"),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(type_: str, written: Any) -> None:
    with pytest.raises(ValueError, match="is no"):
        decoded(written, DataType.parse(type_))


@together(
    "type_, written",
    [
        ("TIME(3)", "12:00:00.0001"), ("TIME(0)", "12:00:00.1"), ("TIME(9)", "12:00:00.1234567"),
        ("TIMESTAMP(3)", "2026-01-31T12:00:00.0001"), ("TIMESTAMP_LTZ(0)", "2026-01-31T12:00:00.5Z"),
        ("TIMESTAMP(9)", "2026-01-31T12:00:00.1234567"), ("TIMESTAMP_LTZ", "2026-01-31T12:00:00.0000001+02:00"),
    ],
)  # fmt: skip
def test_fractional_digits_that_the_type_does_not_hold_are_refused(type_: str, written: str) -> None:
    with pytest.raises(ValueError, match="has more fractional digits than"):
        decoded(written, DataType.parse(type_))


ROUND_TRIP = [
    ("FLOAT", pa.scalar(0.1, pa.float32()).as_py(), 0.1),
    ("FLOAT", float("nan"), "NaN"),
    ("FLOAT", 3.4028234663852886e38, 3.4028235e38),
    ("DOUBLE", 0.1, 0.1),
    ("DOUBLE", float("inf"), "Infinity"),
    ("VECTOR(2)", [pa.scalar(0.1, pa.float32()).as_py(), float("-inf")], [0.1, "-Infinity"]),
    ("DECIMAL(10, 8)", Decimal("1E-8"), "0.00000001"),
    ("DECIMAL(60, 2)", "-12.30", "-12.30"),
    ("BIGINT UNSIGNED", 2**64 - 1, 2**64 - 1),
    ("TIME(6)", -timedelta(microseconds=1), "-00:00:00.000001"),
    ("GEOMETRY", b"\0\1", "AAE="),
]


@together("type_, value, written", ROUND_TRIP)
def test_values_are_written_as_they_are_read(type_: str, value: Any, written: Any) -> None:
    data_type = DataType.parse(type_)
    assert encoded(value, data_type) == written
    arrow = arrow_type(data_type)
    assert str(pa.scalar(decoded(written, data_type), arrow)) == str(pa.scalar(value, arrow))


def test_instants_are_written_in_utc() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert encoded(moment, DataType.parse("TIMESTAMP_LTZ")) == "2026-01-31T10:00:00Z"


def test_a_date_that_no_line_holds_is_named() -> None:
    schema = TableSchema((Column("day", DataType.parse("DATE")),))
    far = pa.array([2_932_897], pa.int32()).view(pa.date32())
    found = replace(block(ORDERS, schema, [("+I", {"day": None})]), rows=pa.RecordBatch.from_arrays([far], ["day"]))
    with pytest.raises(SinkError, match=r"shop\.orders: a date beyond the years 1 to 9999 \(leave such rows out"):
        list(block_lines(found))


# the sink's file


def _append_garbage(folder: Path) -> None:
    with (folder / "out.jsonl").open("a") as file:
        file.write('{"op": "+I", "table": "sh')


def _lose_the_tail(folder: Path) -> None:
    _append_garbage(folder)
    (folder / "state" / "committed.json.tmp").write_text("{")


@pytest.mark.parametrize("crash", [_append_garbage, _lose_the_tail])
def test_what_a_crash_left_behind_the_committed_byte_is_cut_off(tmp_path: Path, crash: Callable[[Path], None]) -> None:
    run_in_memory(source(CREATE, image("+I", 1)), sink_at(tmp_path))
    before = (tmp_path / "out.jsonl").read_text()
    crash(tmp_path)
    schema = source(CREATE).tables()[ORDERS]
    sink = sink_at(tmp_path)
    sink.commit(1, sink.prepare(TaskAttempt(1, 0, 0), iter([block(ORDERS, schema, [("+I", {"id": 2})])])))
    assert (tmp_path / "out.jsonl").read_text() == before + json.dumps(image("+I", 2))[:-1] + ', "ts_ms": 1000}\n'


def test_a_file_that_was_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("mine\n")
    run_in_memory(source(CREATE), sink_at(tmp_path))
    assert (tmp_path / "out.jsonl").read_text().splitlines()[0] == "mine"


def test_the_terminal_gets_the_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = ValuesSink(ValuesSinkOptions(type="values"), Context("p", LocalStore(tmp_path)))
    run_in_memory(source(CREATE, image("+I", 1, "a")), sink)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [CREATE, image("+I", 1, "a")]


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").mkdir()
    with pytest.raises(SinkError, match=r"out\.jsonl: cannot be written: Is a directory"):
        sink_at(tmp_path).apply(0, [CreateTable(ORDERS, source(CREATE).tables()[ORDERS])])


def test_rules_are_held_against_the_tables_that_the_lines_begin_with_before_anything_runs(tmp_path: Path) -> None:
    """A mistake in a rule is told at once, with its place, and leaves no decision behind."""
    file = tmp_path / "p.yaml"
    rule = "{source-table: shop.orders, projection: 'id, UPPER(nmae) AS name'}"
    rows = json.dumps([CREATE, {"op": "+I", "table": "shop.orders", "row": {"id": 1}}])
    sink = f"{{type: values, path: {tmp_path / 'out.jsonl'}}}"
    file.write_text(f"source: {{type: values, rows: {rows}}}\nsink: {sink}\ntransform:\n  - {rule}\n")
    with pytest.raises(SpecError, match=r"p\.yaml:4:\d+: .*no column nmae in shop\.orders \(did you mean name\?\)"):
        run(check_file(str(file)).spec, state_dir=tmp_path / "state", control=RunControl(guest=True))
    assert list((tmp_path / "state" / "commits").iterdir()) == []
