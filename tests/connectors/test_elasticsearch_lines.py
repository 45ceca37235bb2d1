"""Documents of bulk requests as text: what a JSON reader finds in each line. No server."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from http_server import QuietHandler, serving
from together import together

from cdc.block import arrow_schema
from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import AlterColumnType, Column, DataType, TableId, TableSchema
from connectors.elasticsearch.bodies import split_bodies
from connectors.elasticsearch.bulk import Sender
from connectors.elasticsearch.client import ErrorAnswer, Login, SearchClient
from connectors.elasticsearch.documents import DocumentTarget, document_ids, lines
from connectors.elasticsearch.index import Index, index_of
from connectors.elasticsearch.mapping import FieldRules, IndexNames, shard_suffix
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.schema_changes import IndexPlanner

COLUMNS = (
    ("id", "BIGINT"), ("s", "VARCHAR(40)"), ("n", "INT"), ("big", "BIGINT UNSIGNED"), ("d", "DECIMAL(10, 2)"),
    ("f", "DOUBLE"), ("b", "BOOLEAN"), ("t", "TIMESTAMP(6)"), ("z", "TIMESTAMP_LTZ(6)"), ("day", "DATE"), ("j", "JSON"),
    ('odd "name"\\', "VARCHAR(4)"),
)  # fmt: skip
SCHEMA = TableSchema(tuple(Column(name, DataType.parse(kind)) for name, kind in COLUMNS), ("id",))
PLACE = DocumentTarget(TableId("shop", "t"), "the-alias", 7, texts=frozenset({"big"}), objects=frozenset({"j"}))
AT = datetime(2026, 2, 3, 4, 5, 6, 70)
ROW: dict[str, Any] = {
    "id": 1, "s": "plain", "n": -5, "big": 2**64 - 1, "d": Decimal("-0.05"), "f": 0.1, "b": True, "t": AT, "z": AT,
    "day": date(2026, 2, 3), "j": '{"a": [1, null]}', 'odd "name"\\': "x",
}  # fmt: skip
DOCUMENT = {
    "id": 1, "s": "plain", "n": -5, "big": str(2**64 - 1), "d": "-0.05", "f": 0.1, "b": True,
    "t": "2026-02-03T04:05:06.000070", "z": "2026-02-03T04:05:06.000070Z", "day": "2026-02-03", "j": {"a": [1, None]},
    'odd "name"\\': "x",
}  # fmt: skip


def written(*rows: dict[str, Any], gone: tuple[int, ...] = ()) -> list[list[Any]]:
    """The lines of each row, as a JSON reader has them."""
    batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(SCHEMA))
    deleted = np.array([number in gone for number in range(len(rows))])
    found = lines(batch, SCHEMA, document_ids(batch, ("id",)), deleted, PLACE).to_pylist()
    return [[json.loads(line) for line in text.splitlines()] for text in found]


def test_a_document_has_every_value() -> None:
    ((action, document),) = written(ROW)
    assert document == DOCUMENT
    assert action == {
        "index": {
            "require_alias": True, "_index": "the-alias", "version": 7, "version_type": "external_gte", "_id": "1"
        }
    }  # fmt: skip


def test_a_null_is_null_beside_values_of_other_rows() -> None:
    empty = dict.fromkeys(ROW) | {"id": 2}
    assert [document for _, document in written(ROW, empty)] == [DOCUMENT, empty]


@together("text", ['"', "\\", "\n\r\t", "\x00\x01\x1f", "größe \U0001f600", "", '"quoted" \\ and é\x07'])
def test_every_text_comes_back(text: str) -> None:
    documents = [document for _, document in written({**ROW, "s": text}, {**ROW, "id": 2, "s": "plain"})]
    assert [document["s"] for document in documents] == [text, "plain"]


def test_a_deleted_row_is_a_line_alone() -> None:
    assert [len(found) for found in written(ROW, {**ROW, "id": 2}, gone=(1,))] == [2, 1]
    assert written(ROW, gone=(0,)) == [
        [{"delete": {"_index": "the-alias", "version": 7, "version_type": "external_gte", "_id": "1"}}]
    ]


def test_a_part_of_a_larger_batch_is_written_as_it_is() -> None:
    """Arrays of slices begin somewhere in their buffers."""
    rows = [{**ROW, "id": number, "s": '"' if number == 0 else f"row {number}"} for number in range(9)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA)).slice(3, 4)
    found = lines(batch, SCHEMA, document_ids(batch, ("id",)), np.zeros(4, np.bool_), PLACE)
    assert [json.loads(text.splitlines()[1])["s"] for text in found.to_pylist()] == [f"row {n}" for n in range(3, 7)]


def test_a_document_that_an_ingest_pipeline_drops_is_an_error() -> None:
    """The server answers it with success."""
    answer = {"errors": False, "items": [{"index": {"status": 200, "result": "noop"}}]}
    client = SimpleNamespace(retry=RetryPolicy(), hosts=("h",), send=lambda *_, **__: answer)
    body = b'{"index":{"_index":"shop.t","_id":"1"}}\n{}\n'
    with pytest.raises(SinkError, match=r"shop\.t: .* has dropped the document 1"):
        Sender(cast(Any, client), 1, lambda: None, collect_refused=True).send([body], 1)


@together("status", [429, 502, 503, 504])
def test_a_proxy_whose_server_is_away_is_passed_by_for_another_host_or_waited_for(status: int) -> None:
    """What a proxy says is not JSON."""

    class Away(QuietHandler):
        def do_GET(self) -> None:
            self.send(status, b"<html>Bad Gateway</html>", "text/html")

    class There(QuietHandler):
        def do_GET(self) -> None:
            self.send(200, b'{"found": 1}')

    with serving(Away) as away, serving(There) as there:
        assert SearchClient((away, there), Login()).request("GET", "/", wait=False) == {"found": 1}
        with pytest.raises(SinkUnavailable, match=f"HTTP {status}"):
            SearchClient((away,), Login()).request("GET", "/", wait=False)


@together(
    "path, status, text, error",
    [
        ("/_bulk", 200, b"", SinkUnavailable),  # no bulk request is in
        ("/_bulk", 500, b"<html>", SinkUnavailable),
        ("/_bulk", 413, b"<html>", ErrorAnswer),  # as of nginx: a smaller request may go through
        ("/_bulk", 401, b"Unauthorized", SinkError),
        ("/_bulk", 200, b"<html>", SinkUnavailable),
        ("/", 200, b"<html>", SinkError),  # no cluster
        ("/_bulk", 404, b"", SinkUnavailable),
    ],
)
def test_answers_without_json(path: str, status: int, text: bytes, error: type[Exception]) -> None:
    class Proxy(QuietHandler):
        def do_POST(self) -> None:
            self.body()
            self.send(status, text, "text/html")

    with serving(Proxy) as host, pytest.raises(error) as raised:
        SearchClient((host,), Login()).send("POST", path, b"{}\n", "application/json", wait=False)
    assert type(raised.value) is error
    assert ("access denied" in str(raised.value)) == (status == 401)


@together(
    "text, suffix",
    [("Rom", "rom"), ("a/b:c\n", "a_b_c_"), ("..", ".."), ("\u1e9e", "\xdf"), ("x" * 64, "x" * 64), ("", "")],
)
def test_the_index_of_a_text_has_a_name(text: str, suffix: str) -> None:
    assert shard_suffix(text) == suffix
    assert len(shard_suffix("\xe9" * 33)) == 32


@together("given, column", [("shop.t:s", "s"), ("t:n", "n"), ("t:n; shop.t:s", "s"), ("shop.u:s;u:s", "")])
def test_a_sharding_column_is_named_with_its_table(given: str, column: str) -> None:
    options = ElasticsearchSinkOptions.model_validate(
        {"type": "elasticsearch", "hosts": "http://h", "sharding.suffix.key": given}
    )
    assert FieldRules(sharding=options.sharding()).sharding_column(TableId("shop", "t"), SCHEMA) == column


def altered(old: str, new: str, *, keeps: bool = False) -> AlterColumnType:
    """Another type of a column of the table."""
    column = Column("c", DataType.parse(old))
    return AlterColumnType(TableId("shop", "t"), replace(column, type=DataType.parse(new)), column, keeps=keeps)


def planned(change: AlterColumnType) -> int:
    """How many requests it takes."""
    assert change.old is not None
    schema, rules = TableSchema((Column("id", DataType.parse("INT")), change.old), ("id",)), FieldRules()
    index = Index("shop.t-000001", change.table, schema, "p", 1, rules.fields(change.table, schema))
    return len(IndexPlanner(IndexNames(), rules, "p", {"shop.t": index}, {}, {}).plan(change))


@together("old, new, stays", [
    ("INT", "BIGINT", True), ("VARCHAR(9)", "STRING", True), ("DECIMAL(5, 2)", "DECIMAL(9, 2)", True),
    ("DECIMAL(5, 2)", "VARCHAR(9)", True), ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
    ("DECIMAL(5)", "DECIMAL(9, 2)", False), ("DATE", "TIMESTAMP(3)", False),
    ("VARCHAR(9)", "VARCHAR(5)", False), ("BIGINT", "INT", False), ("VARCHAR(9)", "DECIMAL(5, 2)", False),
])  # fmt: skip
def test_documents_of_a_field_that_stays_are_left_where_they_have_what_the_new_type_has(
    old: str, new: str, stays: bool
) -> None:
    """Else the table is read again, as the engine does it by itself; here where its rows are not copied anyway.

    Whether it is, or the run stops, or the change is left out, is not the sink's to say.
    """
    change = altered(old, new)
    if stays:
        assert planned(change) == 1
    else:
        with pytest.raises(ChangeRefused, match="column c was") as refused:
            planned(change)
        assert refused.value.resnapshot_helps
        assert not refused.value.hint
    assert planned(replace(change, copied=True)) == 1


def test_documents_of_a_merged_table_are_spelled_as_later_ones_are() -> None:
    """Else the table is read again: `1.50` would be `1.5000` in later documents of the same row."""
    assert planned(altered("VARCHAR(9)", "STRING", keeps=True)) == 1
    for old, new in (("DECIMAL(5, 2)", "DECIMAL(9, 4)"), ("TIME(3)", "STRING")):
        with pytest.raises(ChangeRefused, match="which documents spell otherwise than"):
            planned(altered(old, new, keeps=True))


def test_an_index_knows_its_table_whose_database_has_a_dot() -> None:
    index = Index("a.b.t-000001", TableId("a.b", "t"), SCHEMA, "p", 1, {})
    assert index_of(index.name, {"mappings": index.mappings()}) == index


@pytest.mark.parametrize(
    ("rows", "row_bytes", "bodies"),
    [(10, 100, 1), (5_000, 90, 1), (30_000, 90, 3), (100_000, 110, 3), (100_000, 330, 9), (7, 4 << 20, 7)],
)
def test_a_flush_is_split_into_bodies_of_equal_size_that_use_all_connections(
    rows: int, row_bytes: int, bodies: int
) -> None:
    """Flushes follow each other, so a connection without a body waits for the others."""
    texts = pa.array(["x" * row_bytes] * rows, pa.string())
    found = list(split_bodies(texts, 5 << 20, 3))
    assert len(found) == bodies
    assert [len(body) for body, _ in found] == [count * row_bytes for _, count in found]
    assert sum(count for _, count in found) == rows
    assert max(count for _, count in found) - min(count for _, count in found) <= bodies
    assert max(len(body) for body, _ in found) <= 5 << 20
