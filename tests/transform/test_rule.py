"""A rule on blocks: which rows pass and as what, keys, options, masking, and values that fail."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from transform_rules import NOW, SCHEMA, TABLE, ZONE, applied, changes, compiled

from cdc.errors import SpecError, TransformError, from_json
from cdc.schema import Column, DataType, TableSchema
from cdc.transform.engine import Engine, ExpressionFailed
from cdc.transform.failures import Counts

UPDATES: list[tuple[str, dict[str, Any]]] = [
    ("+I", {"id": 1, "n": 5}),
    ("-U", {"id": 1, "n": 5}), ("+U", {"id": 1, "n": 6}),
    ("-U", {"id": 2, "n": 5}), ("+U", {"id": 2, "n": 0}),
    ("-U", {"id": 3, "n": 0}), ("+U", {"id": 3, "n": 5}),
    ("-U", {"id": 4, "n": 0}), ("+U", {"id": 4, "n": None}),
    ("-D", {"id": 5, "n": 5}), ("-D", {"id": 6, "n": None}),
]  # fmt: skip


def kinds(made: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, int]]:
    return [(kind, row["id"]) for kind, row in made]


def test_both_images_of_an_update_are_judged_apart() -> None:
    made = applied(compiled(filter="n > 0"), UPDATES)
    assert kinds(made) == [("+I", 1), ("-U", 1), ("+U", 1), ("-D", 2), ("+I", 3), ("-D", 5)]


def test_a_table_without_a_key_is_judged_alike() -> None:
    schema = TableSchema(SCHEMA.columns)
    made = applied(compiled(schema, filter="n > 0"), UPDATES)
    assert kinds(made) == [("+I", 1), ("-U", 1), ("+U", 1), ("-D", 2), ("+I", 3), ("-D", 5)]


def test_an_image_without_its_partner_keeps_its_kind() -> None:
    lone = [("+U", {"id": 1, "n": 5}), ("-U", {"id": 2, "n": 5}), ("+I", {"id": 3, "n": 5}), ("+U", {"id": 4, "n": 0})]
    assert kinds(applied(compiled(filter="n > 0"), lone)) == [("+U", 1), ("-U", 2), ("+I", 3)]


def test_an_unknown_condition_does_not_pass() -> None:
    assert applied(compiled(filter="n = NULL"), UPDATES) == []


def test_a_filter_sees_columns_that_are_not_projected_and_computed_ones_by_their_names() -> None:
    assert kinds(applied(compiled(projection="id", filter="n = 6"), UPDATES)) == [("+I", 1)]
    made = compiled(projection="id, n * 2 AS twice, n + 100 AS n", filter="twice = 12 AND n = 106")
    assert applied(made, UPDATES) == [("+I", {"id": 1, "twice": 12, "n": 106})]


def test_a_row_that_the_filter_drops_is_not_computed() -> None:
    made = compiled(projection="id, 10 / n AS x", filter="n <> 0")
    assert [row["x"] for _, row in applied(made, UPDATES)][:3] == [2, 2, 1]


def test_the_kind_of_the_image_is_the_sources() -> None:
    made = applied(compiled(projection="id, __data_event_type__ AS kind", filter="n > 0"), UPDATES)
    assert [row["kind"] for _, row in made] == ["+I", "-U", "+U", "-U", "+U", "-D"]


def test_soft_delete_keeps_the_row_that_was_deleted() -> None:
    made = compiled(projection=r"id, __data_event_type__ AS kind", converter="SOFT_DELETE")
    assert applied(made, [("-D", {"id": 5})]) == [("+I", {"id": 5, "kind": "-D"})]


def test_a_rule_without_computation_hands_on_the_same_memory() -> None:
    block = changes(*UPDATES)
    given = compiled(projection="id, n AS m").apply(block, NOW)
    assert given.rows.column("m").buffers()[1].address == block.rows.column("n").buffers()[1].address
    assert given.kinds is block.kinds
    computed = compiled(projection="id, n AS m, n + 1 AS k").apply(block, NOW)
    assert computed.rows.column("m").buffers()[1].address == block.rows.column("n").buffers()[1].address


def test_positions_and_times_follow_their_rows() -> None:
    block = changes(*UPDATES)
    given = compiled(filter="id = 5").apply(block, NOW)
    assert given.row.to_pylist() == [9]
    assert given.table == TABLE
    assert len(compiled(filter="id = 99").apply(block, NOW)) == 0
    assert len(compiled(projection="id, n + 1 AS k").apply(changes(), NOW)) == 0


def test_a_column_passed_on_keeps_its_default_and_comment_a_computed_one_has_none() -> None:
    column = Column("n", DataType.parse("INT"), nullable=False, default="0", comment="how many")
    schema = TableSchema((column,), comment="table")
    made = compiled(schema, projection="n, n AS m, n + 1 AS k").schema
    assert made.column("n") == column
    assert made.column("m").default == "0"
    assert made.column("k") == Column("k", DataType.parse("INT"), nullable=False)
    assert made.comment == "table"


def test_keys_of_the_rule_replace_the_tables_and_are_not_null() -> None:
    made = compiled(projection="id, n, s", primary_keys="n, `S`", partition_keys="id", table_options="a=1; b = x=y",
                    delimiter=";")  # fmt: skip
    assert made.schema.primary_key == ("n", "s")
    assert not made.schema.column("n").nullable
    assert made.partition_keys == ("id",)
    assert made.table_options == {"a": "1", "b": "x=y"}


def test_the_tables_key_is_followed_when_its_column_is_renamed() -> None:
    assert compiled(projection="id AS order_id, n").schema.primary_key == ("order_id",)


def test_metadata_of_the_source_can_be_columns() -> None:
    made = compiled(projection=r"id, op_ts, __table_name__", metadata=("op_ts",))
    assert applied(made, [("+I", {"id": 1})]) == [("+I", {"id": 1, "op_ts": 1000, "__table_name__": "orders"})]
    assert str(made.schema.column("op_ts").type) == "BIGINT"
    assert not made.schema.column("op_ts").nullable


def test_masked_columns_leave_the_rule_hidden_also_by_another_name() -> None:
    made = compiled(projection=r"\*, s AS clear", mask={"s": "HASH", "v": "MASK(1)", "n": "REDACT"}, filter="s = 'x'")
    ((_, row),) = applied(made, [("+I", {"id": 1, "s": "x", "v": "abcd", "n": 5})])
    assert row["s"] == row["clear"] != "x"
    assert (row["v"], row["n"]) == ("***d", "[redacted]")
    assert str(made.schema.column("n").type) == "STRING"


def test_a_masked_value_is_in_no_message() -> None:
    schema = TableSchema((Column("s", DataType.parse("STRING")), Column("id", DataType.parse("INT"))), ("s",))
    made = compiled(schema, mask={"s": "HASH"}, filter="CAST(s AS DATE) > '2024-01-01' OR 1 / id = 1")
    with pytest.raises(TransformError) as caught:
        made.apply(changes(("+I", {"s": "secret", "id": 0}), schema=schema), NOW)
    assert "secret" not in str(caught.value)
    assert "s=(masked)" in str(caught.value)


def test_a_failing_value_is_null_and_counted_when_the_rule_says_so() -> None:
    counts = Counts()
    rows = [("+I", {"id": number, "n": number % 3, "s": "12" if number % 2 else "x"}) for number in range(30)]
    made = compiled(projection="id, 10 / n AS a, CAST(s AS INT) AS b", filter="id >= 0", on_error="null")
    out = applied(made, rows, counts)
    assert [(row["a"], row["b"]) for _, row in out[:3]] == [(None, None), (10, 12), (5, None)]
    assert len(out) == 30
    assert counts.values == {(TABLE, "a"): 10, (TABLE, "b"): 15}
    assert made.schema.column("a").nullable


def test_a_failing_part_that_is_there_twice_is_null_too() -> None:
    made = compiled(projection="id, 10 / n + 10 / n AS a", on_error="null")
    assert [row["a"] for _, row in applied(made, UPDATES)][3:5] == [4, None]


def test_a_filter_that_fails_does_not_pass_and_is_counted() -> None:
    counts = Counts()
    made = compiled(filter="10 / n > 1", on_error="null")
    assert kinds(applied(made, UPDATES, counts))[0] == ("+I", 1)
    assert counts.values == {(TABLE, ""): 3}


def test_the_first_row_that_fails_is_named_with_key_column_and_expression() -> None:
    rows = [("+I", {"id": number, "n": 0 if number in (77, 90) else 1}) for number in range(100)]
    with pytest.raises(TransformError) as caught:
        applied(compiled(projection="id, n + 1 AS ok, 10 / n AS bad"), rows)
    text = str(caught.value)
    assert text.startswith("transform[0]: table shop.orders, column bad: `10 / n AS bad` of the row id=77: Division by")
    assert str(from_json(caught.value.to_json())) == text


def test_a_filter_that_fails_is_named_too() -> None:
    with pytest.raises(TransformError, match=r"the filter: `10 / n > 1` of the row id=2"):
        applied(compiled(filter="10 / n > 1"), UPDATES)


def test_text_that_is_not_utf8_is_named_before_it_reaches_the_engine() -> None:
    made = compiled(projection="id, UPPER(s) AS a")
    block = changes(("+I", {"id": 1, "s": "ok"}), ("+I", {"id": 2, "s": "xx"}))
    bad = pa.array([b"ok", b"\xc3\x28"], pa.binary()).view(pa.string())
    number = block.schema.names.index("s")
    rows = pa.RecordBatch.from_arrays(
        [bad if at == number else column for at, column in enumerate(block.rows.columns)], schema=block.rows.schema
    )
    object.__setattr__(block, "rows", rows)
    with pytest.raises(TransformError, match=r"id=2: the value is not UTF-8 text"):
        made.apply(block, NOW)


def test_one_engine_serves_many_rules_and_blocks_of_any_size() -> None:
    engine = Engine(zone=ZONE)
    rules = [compiled(engine=engine, projection=f"id, n + {number} AS a", filter="n >= 0") for number in range(20)]
    for size in (0, 1, 3000):
        rows = [("+I", {"id": number, "n": number}) for number in range(size)]
        for number, made in enumerate(rules):
            assert [row["a"] for _, row in applied(made, rows)] == [n + number for n in range(size)]


def test_the_engine_reads_no_file_and_loads_nothing() -> None:
    engine = Engine()
    schema = pa.schema([pa.field("__row", pa.int32())])
    for sql in (
        "(SELECT content FROM read_text('/etc/hostname'))",
        "(SELECT count(*) FROM 'pyproject.toml')",
        "getenv('HOME')",
    ):
        with pytest.raises(ExpressionFailed):
            engine.prepare([sql], None, schema).run(pa.RecordBatch.from_pylist([{"__row": 1}], schema=schema))


def test_a_rule_for_a_table_without_its_column_is_refused() -> None:
    schema = TableSchema((Column("id", DataType.parse("INT")),))
    with pytest.raises(SpecError, match="there is no column n"):
        compiled(schema, projection="id, n")
