"""The behaviours of a sink, over real OpenSearch and Elasticsearch servers."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from search_harness import Harness

from cdc.errors import ChangeRefused, SinkError
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    DataType,
    DropColumn,
    Kind,
    RenameColumn,
    TableSchema,
)
from cdc.testing import SinkConformance, SinkHarness
from cdc.testing.blocks import block
from cdc.testing.sink_conformance import ID, LOG, NAME, ORDERS, VALUES, by_id, keyed, keyless, prepare, row
from cdc_services.search.server import SearchServer

pytestmark = pytest.mark.slow

NUMBER = itertools.count()


OBJECT = ("JSON", ('{"a": [1, 2.5, null], "b": "ü"}', "[]"))
"""A document has no field for the JSON value `null`, as for NULL."""


class _OnServer(SinkConformance):
    by_snapshot = (RenameColumn,)
    values = tuple(OBJECT if text == "JSON" else (text, values) for text, values in VALUES)

    def _harness(self, server: SearchServer, folder: Path) -> Harness:
        harness = Harness(server, folder / "state", f"pipeline-{os.getpid()}-{next(NUMBER)}")
        harness.clear()
        return harness

    def test_a_delete_takes_one_of_equal_rows(self, harness: SinkHarness) -> None:
        """No document can be found without a key: the task fails, and nothing of it stays."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
        with pytest.raises(SinkError, match="without a key"):
            prepare(sink, 1, [keyless("-D", row(1))])
        assert harness.rows(LOG) == [row(1)]

    def test_a_schema_change_then_rows(self, harness: SinkHarness) -> None:
        """A field is added at once; a default that older documents would need has the table read again."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        qty = Column("qty", DataType(Kind.INT))
        with pytest.raises(ChangeRefused, match="qty") as refused:
            sink.apply(1, [AddColumn(ORDERS, replace(qty, default="7"))])
        assert refused.value.curable
        sink.apply(1, [AddColumn(ORDERS, qty)])
        wide = TableSchema((ID, NAME, qty), ("id",))
        sink.commit(1, prepare(sink, 1, [block(ORDERS, wide, [("+I", {**row(2, "b"), "qty": 3})])]))
        assert by_id(harness.rows(ORDERS)) == [row(1, "a"), {**row(2, "b"), "qty": 3}]

    def test_columns_are_renamed_retyped_and_dropped(self, harness: SinkHarness) -> None:
        """A field keeps name and type for good: such changes have the table read again into a new index."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        number = Column("name", DataType(Kind.BIGINT))
        for change in (RenameColumn(ORDERS, "name", "title"), AlterColumnType(ORDERS, number, NAME)):
            with pytest.raises(ChangeRefused) as refused:
                sink.apply(1, [change])
            assert refused.value.curable
        longer = Column("name", DataType(Kind.STRING))
        sink.apply(1, [AlterColumnType(ORDERS, longer, NAME)])
        wide = TableSchema((ID, longer), ("id",))
        sink.commit(1, prepare(sink, 1, [block(ORDERS, wide, [("+I", row(2, "b"))])]))
        sink.apply(2, [DropColumn(ORDERS, "name")])
        sink.commit(2, prepare(sink, 2, [block(ORDERS, TableSchema((ID,), ("id",)), [("+I", {"id": 3})])]))
        assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b"), {"id": 3}]

    def test_a_new_key(self, harness: SinkHarness) -> None:
        """Ids of documents are made of the key: the table is read again."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        with pytest.raises(ChangeRefused, match="key") as refused:
            sink.apply(1, [AlterPrimaryKey(ORDERS, ("name",))])
        assert refused.value.curable


class TestOpenSearchSink(_OnServer):
    @pytest.fixture
    def harness(self, opensearch: SearchServer, tmp_path: Path) -> Harness:
        return self._harness(opensearch, tmp_path)


class TestElasticsearchSink(_OnServer):
    @pytest.fixture
    def harness(self, elasticsearch: SearchServer, tmp_path: Path) -> Harness:
        return self._harness(elasticsearch, tmp_path)
