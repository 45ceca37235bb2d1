"""A sink without SQL that was written for the tests passes the whole suite, shadow tables included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from document_sink import DocumentSink
from document_store import DocumentStore

from cdc.lines.format import decoded
from cdc.schema import AddColumn, Column, CreateTable, DataType, RenameColumn, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import SinkConformance, SinkHarness
from cdc.testing.delivery_conformance import KEYED, ORDERS, keyed, prepare, row


class DocumentHarness:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "cluster.json"
        self._context = Context("pipeline-1", LocalStore(folder / "state"))

    def sink(self) -> DocumentSink:
        return DocumentSink(self._path, self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        store = DocumentStore(self._path)
        name = store.index_of(str(table))
        if name is None:
            return None
        index = store.index(name)
        sources = (doc["source"] for doc in index["docs"].values() if doc["source"] is not None)
        return [
            {field: decoded(source.get(field), DataType.parse(kind)) for field, kind in index["mapping"].items()}
            for source in sources
        ]


@pytest.fixture
def harness(tmp_path: Path) -> DocumentHarness:
    return DocumentHarness(tmp_path)


class TestDocumentSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> SinkHarness:
        return DocumentHarness(tmp_path)


def test_a_commit_that_dies_in_the_middle_is_sent_again_and_changes_nothing(harness: DocumentHarness) -> None:
    sink = harness.sink()
    prepared = prepare(sink, 0, [keyed("+I", row(1, "a"), "-U", row(1, "a"), "+U", row(1, "b"))], create=True)
    index = DocumentStore(harness._path).index_of(str(ORDERS))
    assert index is not None
    DocumentStore(harness._path).bulk(index, json.loads(prepared[0].payload)[:1])
    assert harness.rows(ORDERS) == [row(1, "a")]  # a reader may see a part of the batch
    harness.sink().commit(0, prepared)
    harness.sink().commit(0, prepared)
    assert harness.rows(ORDERS) == [row(1, "b")]


def test_the_plan_is_in_words_and_does_nothing(harness: DocumentHarness) -> None:
    sink = harness.sink()
    assert sink.plan_text([CreateTable(ORDERS, KEYED)]) == [
        "create table shop.orders (id BIGINT, name VARCHAR(64), key (id))"
    ]
    assert harness.rows(ORDERS) is None
    sink.apply(0, [CreateTable(ORDERS, KEYED)])
    column = Column("qty", DataType.parse("INT"), default="7")
    assert sink.plan_text([AddColumn(ORDERS, column)]) == [
        "add column shop.orders.qty INT default '7'", "fill column shop.orders.qty INT default '7'",
    ]  # fmt: skip
    assert sink.plan_text([CreateTable(ORDERS, KEYED)]) == []


def test_what_is_not_done_in_place_asks_for_a_re_snapshot(harness: DocumentHarness) -> None:
    """Only the engine knows whether one is made, so the hint says nothing of it."""
    from cdc.errors import ChangeRefused

    sink = harness.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED)])
    with pytest.raises(ChangeRefused, match="column name cannot be renamed to title in place") as caught:
        sink.apply(1, [RenameColumn(ORDERS, "name", "title")])
    assert caught.value.resnapshot_helps
    assert not caught.value.hint
