"""The behaviours of a sink, over real OpenSearch and Elasticsearch servers."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from search_harness import Harness
from tiers import in_turn

from cdc.errors import ChangeRefused
from cdc.schema import AddColumn, Column, DataType, Kind, TableSchema
from cdc.testing import SinkConformance, SinkHarness
from cdc.testing.blocks import block
from cdc.testing.delivery_conformance import ID, NAME, ORDERS, by_id, keyed, prepare, row
from cdc.testing.sink_conformance import VALUES
from cdc_services.search.server import SearchServer

pytestmark = pytest.mark.slow

NUMBER = itertools.count()


OBJECT = ("JSON", ('{"a": [1, 2.5, null], "b": "ü"}', "[]"))
"""A document has no field for the JSON value `null`, as for NULL."""


class _OnServer(SinkConformance):
    values = tuple(OBJECT if text == "JSON" else (text, values) for text, values in VALUES)

    def _harness(self, server: SearchServer, folder: Path) -> Harness:
        harness = Harness(server, folder / "state", f"pipeline-{os.getpid()}-{next(NUMBER)}")
        harness.clear()
        return harness

    def test_a_schema_change_then_rows(self, harness: SinkHarness) -> None:
        """A field is added at once; a default that older documents would need has the table read again."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True))
        qty = Column("qty", DataType(Kind.INT))
        with pytest.raises(ChangeRefused, match=r"qty comes with .* do not have$") as refused:
            sink.apply(1, [AddColumn(ORDERS, replace(qty, default="7"))])
        assert refused.value.resnapshot_helps
        sink.apply(1, [AddColumn(ORDERS, qty)])
        wide = TableSchema((ID, NAME, qty), ("id",))
        sink.commit(1, prepare(sink, 1, [block(ORDERS, wide, [("+I", {**row(2, "b"), "qty": 3})])]))
        assert by_id(harness.rows(ORDERS)) == [row(1, "a"), {**row(2, "b"), "qty": 3}]


@in_turn(0, 2)
class TestOpenSearchSink(_OnServer):
    @pytest.fixture
    def harness(self, opensearch: SearchServer, tmp_path: Path) -> Harness:
        return self._harness(opensearch, tmp_path)


@in_turn(1, 2)
class TestElasticsearchSink(_OnServer):
    @pytest.fixture
    def harness(self, elasticsearch: SearchServer, tmp_path: Path) -> Harness:
        return self._harness(elasticsearch, tmp_path)
