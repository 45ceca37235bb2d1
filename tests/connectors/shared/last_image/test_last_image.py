"""The last image per key of a flush, against a dictionary that plays the flush row by row."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials import trials

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.shared.last_image.last_image import (
    DELETE_DROPPED,
    KEYLESS_SKIPPED,
    KeylessChanges,
    LastImages,
    concat_blocks,
    every_insert,
    images,
)

TABLE = TableId("shop", "t")


def schema(*types: str) -> TableSchema:
    """Columns k0, k1, ... of these types and a value column v."""
    columns = [Column(f"k{number}", DataType.parse(text)) for number, text in enumerate(types)]
    keys = tuple(column.name for column in columns)
    return TableSchema((*columns, Column("v", DataType.parse("INT"))), keys)


def changes(*rows: tuple[str, Any, int]) -> ChangeBlock:
    """A block of an INT key and a value."""
    return block(TABLE, schema("INT"), [(kind, {"k0": key, "v": value}) for kind, key, value in rows])


def left(found: LastImages) -> list[tuple[int, Any, int]]:
    """(deleted, key, value) of each row, in order."""
    rows = found.rows.to_pylist()
    return [(int(gone), row["k0"], row["v"]) for gone, row in zip(found.delete, rows, strict=True)]


def test_only_the_last_image_of_a_key_is_left_in_log_order() -> None:
    found = images(
        changes(("+I", 1, 10), ("+I", 2, 20), ("-U", 1, 10), ("+U", 1, 11), ("-D", 2, 20), ("+I", 3, 30)), ["k0"]
    )
    assert left(found) == [(0, 1, 11), (1, 2, 20), (0, 3, 30)]
    assert (found.inserts, found.updates, found.deletes) == (3, 1, 1)
    assert found.counts == {}


def test_an_update_of_the_key_deletes_the_old_one() -> None:
    assert left(images(changes(("-U", 1, 10), ("+U", 2, 10)), ["k0"])) == [(1, 1, 10), (0, 2, 10)]


def test_two_keys_that_change_places_are_both_there_at_the_end() -> None:
    found = images(
        changes(("-U", 1, 10), ("+U", 3, 10), ("-U", 2, 20), ("+U", 1, 20), ("-U", 3, 10), ("+U", 2, 10)), ["k0"]
    )
    assert left(found) == [(0, 1, 20), (1, 3, 10), (0, 2, 10)]


def test_a_deleted_row_that_comes_back_is_there() -> None:
    assert left(images(changes(("-D", 1, 10), ("+I", 1, 11)), ["k0"])) == [(0, 1, 11)]


def test_without_deletes_the_last_row_stays_and_the_deletes_are_counted() -> None:
    found = images(
        changes(("+I", 1, 10), ("-D", 1, 10), ("-D", 2, 20), ("-U", 3, 30), ("+U", 4, 30), ("-U", 5, 1), ("+U", 5, 2)),
        ["k0"],
        deletes=False,
    )
    assert left(found) == [(0, 1, 10), (0, 4, 30), (0, 5, 2)]
    assert found.counts == {DELETE_DROPPED: 3}


def test_many_keys_do_not_get_into_each_others_way() -> None:
    keys = [(number * 7919) % 3001 for number in range(9000)]
    found = images(changes(*(("+I", key, at) for at, key in enumerate(keys))), ["k0"])
    last = {key: at for at, key in enumerate(keys)}
    assert left(found) == [(0, keys[at], at) for at in sorted(last.values())]


def test_an_empty_block_gives_no_rows() -> None:
    assert left(images(changes(), ["k0"])) == []


def test_positions_stay_with_their_rows() -> None:
    both = concat_blocks(
        [changes(("+I", 1, 1), ("+I", 2, 2)), block(TABLE, schema("INT"), [("+U", {"k0": 1})], sequence=9)]
    )
    assert images(both, ["k0"]).sequence.tolist() == [1, 9]


def test_null_is_a_key_like_any_other() -> None:
    found = images(changes(("+I", None, 1), ("+I", 0, 2), ("+U", None, 3)), ["k0"])
    assert left(found) == [(0, 0, 2), (0, None, 3)]


def test_keys_are_compared_as_bytes() -> None:
    rows = block(TABLE, schema("VARCHAR(9)"), [("+I", {"k0": key}) for key in ("a", "A", "a ", "ä", "a")])
    assert [row["k0"] for row in images(rows, ["k0"]).rows.to_pylist()] == ["A", "a ", "ä", "a"]


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    rows = [("+I", {"k0": one, "k1": two}) for one, two in (("ab", "c"), ("a", "bc"), ("ab", "c"))]
    assert images(block(TABLE, schema("STRING", "STRING"), rows), ["k0", "k1"]).rows.num_rows == 2


def test_a_key_column_that_is_not_there_is_an_error() -> None:
    with pytest.raises((KeyError, ValueError)):
        images(changes(("+I", 1, 1)), ["nothing"])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-2, 2),
    "BIGINT UNSIGNED": st.sampled_from([0, 1, 2**64 - 1]),
    "TINYINT": st.integers(-1, 1),
    "BOOLEAN": st.booleans(),
    "VARCHAR(9)": st.text("ab", max_size=2) | st.sampled_from(["a" * 7, "a" * 8, "a" * 9 + "b", "a" * 17]),
    "VARBINARY(9)": st.binary(max_size=1),
    "DOUBLE": st.sampled_from([0.5, 1.5, -1.5]),
    "DECIMAL(30, 2)": st.sampled_from([Decimal("0.01"), Decimal("1e20"), Decimal("-0.01")]),
    "DATE": st.sampled_from([None]),
    "VECTOR(2)": st.lists(st.sampled_from([0.5, 1.0]), max_size=2),
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[TableSchema, list[tuple[str, dict[str, Any]]]]:
    """A key of one to three columns and a list of images."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = {f"k{number}": st.none() | VALUES[text] for number, text in enumerate(types)}
    kinds = st.sampled_from(["+I", "-U", "+U", "-D"])
    rows = draw(st.lists(st.tuples(kinds, st.fixed_dictionaries(columns)), max_size=40))
    return schema(*types), [(kind, {**row, "v": at}) for at, (kind, row) in enumerate(rows)]


@pytest.mark.slow
@settings(max_examples=trials(150), deadline=None)
@given(history=histories(), cut=st.integers(0, 3))
def test_every_history_ends_like_a_dictionary_played_row_by_row(
    history: tuple[TableSchema, list[tuple[str, dict[str, Any]]]], cut: int
) -> None:
    made, rows = history
    whole = block(TABLE, made, rows)
    part = ChangeBlock(
        whole.table, made, whole.rows.slice(cut), whole.kinds.slice(cut), whole.sequence.slice(cut),
        whole.row.slice(cut), whole.timestamps_ms.slice(cut),
    )  # fmt: skip
    expected: dict[str, tuple[int, int]] = {}
    for kind, row in rows[cut:]:
        key = repr([row[name] for name in made.primary_key])
        expected.pop(key, None)
        expected[key] = (int(kind in ("-U", "-D")), row["v"])
    found = images(part, made.primary_key)
    assert [(int(gone), v) for gone, v in zip(found.delete, found.rows["v"].to_pylist(), strict=True)] == list(
        expected.values()
    )


def test_without_a_key_every_insert_is_kept_even_if_equal() -> None:
    found = every_insert(changes(("+I", 1, 1), ("+I", 1, 1)), KeylessChanges.FAIL)
    assert left(found) == [(0, 1, 1), (0, 1, 1)]


def test_without_a_key_a_change_is_an_error_that_names_the_position() -> None:
    rows = block(TABLE, schema("INT"), [("+I", {}), ("-U", {}), ("+U", {})], sequence=1234)
    rows = replace(rows, position_text="log 7:{}".format)
    with pytest.raises(SinkError, match=r"shop\.t at log 7:1234: an update of a table without a key.*skip"):
        every_insert(rows, KeylessChanges.FAIL)


def test_without_a_key_changes_can_be_left_out_counted() -> None:
    found = every_insert(changes(("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2), ("-D", 1, 2)), KeylessChanges.SKIP)
    assert left(found) == [(0, 1, 1)]
    assert found.counts == {KEYLESS_SKIPPED: 2}
