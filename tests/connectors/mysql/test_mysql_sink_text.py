"""Rows as the text of LOAD DATA and of SQL literals, against the same made value by value."""

from __future__ import annotations

import pyarrow as pa
from together import together

from cdc.schema import Column, DataType
from connectors.mysql.sink.text import WrittenColumn, literals, load_body, refusals
from connectors.mysql.sink.types import Flavor, ServerType, column_type, key_collation

COLUMNS = [WrittenColumn("id", ServerType("int")), WrittenColumn("note", ServerType("text")),
           WrittenColumn("raw", ServerType("blob")), WrittenColumn("day", ServerType("date"))]  # fmt: skip
NOTES = ["", "plain", "NULL", "\\N", "it's", 'say "x"', "tab\t line\n back\\ nul\0", "grüße 😀", None]
ROWS = pa.record_batch({
    "id": pa.array([None, *range(1, len(NOTES))], pa.int32()),
    "note": pa.array(NOTES, pa.string()),
    "raw": pa.array([b"", b"\0'\\", None, *[b"\xff"] * (len(NOTES) - 3)], pa.binary()),
    "day": pa.array([19_000] * len(NOTES), pa.int32()).cast(pa.date32()),
})  # fmt: skip


@together("rows", [ROWS, ROWS.slice(2, 5), ROWS.slice(3, 0)])
def test_fields_are_kept_apart_whatever_is_in_them(rows: pa.RecordBatch) -> None:
    """Letters that end a field, a row or a string are escaped; NULL is not the text of that name."""
    assert load_body(rows, COLUMNS).decode() == "".join(
        "\t".join("\\N" if value is None else _field(value) for value in row.values()) + "\n"
        for row in rows.to_pylist()
    )
    assert literals(rows, COLUMNS) == [
        "(" + ",".join("NULL" if value is None else _literal(value) for value in row.values()) + ")"
        for row in rows.to_pylist()
    ]


def _field(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\0", "\\0")


def _literal(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"


def test_a_time_with_more_fractional_digits_than_its_column_is_refused() -> None:
    """Servers round it without a warning."""
    times = pa.array([500_000, None, 7_000_000, 250_000], pa.int64())
    rows = pa.record_batch({"at": times.view(pa.timestamp("us")), "for": times.view(pa.duration("us"))})
    for at, span, refused in (
        ("datetime", "time(2)", [0, 3]),
        ("timestamp(1)", "time(6)", [3]),
        ("text", "time(2)", []),
    ):
        columns = [WrittenColumn("at", ServerType(at), exact=True), WrittenColumn("for", ServerType(span), exact=True)]
        assert list(refusals(rows, columns)) == refused


def test_labels_of_which_two_are_shown_alike_are_text_here() -> None:
    """Servers show each letter beyond U+FFFF as `?`, and take no label twice."""
    column = Column("c", DataType.parse("STRING"), source_type="enum('?','?','x')")
    assert column_type(column, key_parts=0, flavor="mysql").text == "longtext"


@together(
    "flavor, version, collation",
    [
        ("mysql", "5.7.22-log", "utf8mb4_bin"),
        ("mysql", "8.0.16", "utf8mb4_bin"),
        ("mysql", "8.0.17", "utf8mb4_0900_bin"),
        ("mariadb", "10.11.19-MariaDB", "utf8mb4_nopad_bin"),
        ("oceanbase", "5.7.25-OceanBase-v4.3.5.3", "utf8mb4_bin"),
    ],
)
def test_keys_have_a_binary_collation_that_the_server_has(flavor: Flavor, version: str, collation: str) -> None:
    assert key_collation(flavor, version) == collation
