"""Documents that the server refuses: the run stops, or the rows are dead letters, each once. Real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from search_harness import Harness
from sink_calls import prepared

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.process import faults
from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.testing.blocks import block
from cdc_services.search.server import SearchServer
from connectors.elasticsearch.client import ErrorAnswer, SearchClient
from connectors.elasticsearch.cluster import SearchCluster

pytestmark = pytest.mark.slow

ORDERS = TableId("shop", "Orders")
ID, PRICE = Column("id", DataType.parse("INT"), nullable=False), Column("price", DataType.parse("DOUBLE"))
SCHEMA = TableSchema((ID, PRICE), ("id",))
NAN = float("nan")
COUNTED = "refused-dead-letter shop.Orders"


@pytest.fixture(params=["opensearch", "elasticsearch"])
def server(request: pytest.FixtureRequest) -> SearchServer:
    found: SearchServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def harness(server: SearchServer, tmp_path: Path) -> Harness:
    letters = {"sink.invalid-values": "dead-letter", "sink.dead-letter.path": str(tmp_path / "letters")}
    made = Harness(server, tmp_path / "state", f"pipeline-{tmp_path.name}", letters)
    made.clear()
    made.sink().apply(0, [CreateTable(ORDERS, SCHEMA)])
    return made


def orders(*changes: tuple[str, int, float], at: int = 1) -> ChangeBlock:
    rows = [(kind, {"id": id_, "price": price}) for kind, id_, price in changes]
    return block(ORDERS, SCHEMA, rows, sequence=at)


def prices(harness: Harness) -> dict[str, float]:
    return {id_: found["price"] for id_, found in (harness.documents(ORDERS) or {}).items()}


def letters(tmp_path: Path) -> list[dict[str, Any]]:
    """What all files say."""
    files = sorted((tmp_path / "letters").rglob("*"))
    return [json.loads(line) for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()]


def test_a_refused_row_is_kept_with_the_server_s_reason(harness: Harness, tmp_path: Path) -> None:
    """In a file of its pipeline, table and batch; the others are in, and a document that is there stays."""
    sink = harness.sink()
    sink.commit(0, prepared(sink, 0, orders(("+I", 1, 0.5))))
    changes = (orders(("+I", 2, 2.5), at=7), orders(("-U", 1, 0.5), ("+U", 1, NAN), at=8), orders(("+I", 3, 3.5), at=9))
    assert sink.commit(1, prepared(sink, 1, *changes)) == {COUNTED: 1}
    assert prices(harness) == {"1": 0.5, "2": 2.5, "3": 3.5}
    (letter,) = letters(tmp_path)
    (rejected,) = letter.pop("rejected")
    assert letter == {
        "table": "shop.Orders", "position": "8", "operation": "upsert", "key": {"id": 1},
        "row": {"id": 1, "price": "NaN"},
    }  # fmt: skip
    assert (rejected["column"], rejected["type"]) == ("price", "double")
    assert "supports only finite values" in rejected["reason"]
    assert (tmp_path / "letters" / harness.pipeline / "shop.Orders" / "batch-1.jsonl").exists()


def test_letters_are_there_once_whatever_is_repeated(harness: Harness, tmp_path: Path) -> None:
    """After a crash between two requests, after one before the batch was noted, and when all was noted."""
    harness.options["sink.bulk.size"] = "1 kb"
    sink = harness.sink()
    many = [orders(*(("+I", number, NAN if number % 3 else 1.0) for number in range(90)))]
    handles = prepared(sink, 0, *many)

    def dies(point: str, _: int) -> None:
        if point == "mid-commit":
            raise KeyboardInterrupt

    with patch.object(faults, "hook", dies), pytest.raises(KeyboardInterrupt):
        sink.commit(0, handles)
    assert letters(tmp_path) == []
    with patch.object(SearchCluster, "note_batch", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        harness.sink().commit(0, handles)
    for _ in range(2):
        assert harness.sink().commit(0, handles) == {COUNTED: 60}
        assert sorted(letter["key"]["id"] for letter in letters(tmp_path)) == [n for n in range(90) if n % 3]
    assert len(prices(harness)) == 30


def test_what_goes_in_after_all_is_no_letter(harness: Harness, tmp_path: Path) -> None:
    """The first try was refused and died; meanwhile somebody has mended the mapping."""
    note = Column("note", DataType.parse("VARCHAR(9)"))
    wide = TableSchema((ID, PRICE, note), ("id",))
    handles = prepared(
        harness.sink(), 0, block(ORDERS, wide, [("+I", {"id": 1, "price": 1.0, "note": "x"})])
    )  # fmt: skip
    with patch.object(SearchCluster, "note_batch", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        harness.sink().commit(0, handles)
    assert [letter["key"] for letter in letters(tmp_path)] == [{"id": 1}]
    harness.server.ask("PUT", "/shop.orders/_mapping", {"properties": {"note": {"type": "keyword"}}})
    assert harness.sink().commit(0, handles) == {}
    assert letters(tmp_path) == []
    assert harness.documents(ORDERS) == {"1": {"id": 1, "price": 1.0, "note": "x"}}


@pytest.mark.parametrize("state", ["blocked", "closed", "without a pipeline"])
def test_an_index_that_takes_nothing_makes_no_letters(harness: Harness, tmp_path: Path, state: str) -> None:
    """It is no document's fault: the run stops, and goes on from there once the index takes documents again."""
    sink, index = harness.sink(), "/shop.orders-000001"
    handles = prepared(sink, 0, orders(("+I", 1, 1.0)))

    def put(block: bool, pipeline: str) -> None:
        settings = {"index.blocks.write": block, "index.default_pipeline": pipeline}
        harness.server.ask("PUT", f"{index}/_settings", settings)

    if state == "closed":
        harness.server.ask("POST", f"{index}/_close")
    else:
        put(state == "blocked", "absent" if state == "without a pipeline" else "_none")
    with pytest.raises(SinkError, match=r"accepts no documents.*(blocked|closed|absent)"):
        sink.commit(0, handles)
    if state == "closed":
        harness.server.ask("POST", f"{index}/_open?wait_for_active_shards=1")
    else:
        put(block=False, pipeline="_none")
    assert harness.sink().commit(0, handles) == {}
    assert prices(harness) == {"1": 1.0}
    assert letters(tmp_path) == []


@pytest.mark.parametrize(("status", "skipped"), [(400, True), (403, False), (500, False)])
def test_a_cluster_that_fails_refuses_no_schema_change(harness: Harness, status: int, skipped: bool) -> None:
    """As over a full disk; some behaviors skip refused changes, others copy the table."""
    request = SearchClient.request

    def failing(self: SearchClient, method: str, path: str, body: Any = None, *, wait: bool = True) -> Any:
        if path.endswith("_mapping"):
            raise ErrorAnswer(status, "i_o_exception", "No space left on device")
        return request(self, method, path, body, wait=wait)

    note = AddColumn(ORDERS, Column("note", DataType.parse("STRING")))
    with patch.object(SearchClient, "request", failing), pytest.raises(SinkError, match="No space left") as told:
        harness.sink().apply(1, [note])
    assert isinstance(told.value, ChangeRefused) == skipped


def test_a_refused_request_tells_the_next_step(harness: Harness) -> None:
    """As in a cluster that somebody has made read-only (`cluster.blocks.read_only`)."""
    sink, send = harness.sink(), SearchClient.send
    handles = prepared(sink, 0, orders(("+I", 1, 1.0)))

    def blocked(self: SearchClient, method: str, path: str, *given: Any, **more: Any) -> Any:
        if path.startswith("/_bulk"):
            raise ErrorAnswer(403, "cluster_block_exception", "cluster read-only (api)")
        return send(self, method, path, *given, **more)

    with patch.object(SearchClient, "send", blocked), pytest.raises(SinkError) as told:
        sink.commit(0, handles)
    assert told.value.hint.startswith("let the cluster accept writes")
    assert harness.sink().commit(0, handles) == {}
    assert prices(harness) == {"1": 1.0}


def test_a_document_larger_than_a_request_may_be_is_a_letter(harness: Harness, tmp_path: Path) -> None:
    """The body is halved until it is alone."""
    sink = harness.sink()
    handles = prepared(sink, 0, orders(*(("+I", number, 1 / 3 if number == 5 else 1.0) for number in range(9))))
    send = SearchClient.send

    def limited(self: SearchClient, method: str, path: str, body: bytes | None, kind: str, *, wait: bool = True) -> Any:
        if body is not None and b"0.33333" in body:
            raise ErrorAnswer(413, "", "")
        return send(self, method, path, body, kind, wait=wait)

    with patch.object(SearchClient, "send", limited):
        assert sink.commit(0, handles) == {COUNTED: 1}
    assert sorted(prices(harness)) == [str(number) for number in range(9) if number != 5]
    (letter,) = letters(tmp_path)
    assert letter["key"] == {"id": 5}
    assert "larger than the server accepts" in letter["rejected"][0]["reason"]
