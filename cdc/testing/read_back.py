"""Rows read back from a sink, as `cdc verify` does, against those that were written."""

from __future__ import annotations

from cdc.block import ChangeBlock
from cdc.schema import TableId
from cdc.sink import Sink, StoredTable


def assert_read_back(sink: Sink, written: ChangeBlock) -> None:
    """Assert that the sink's own account of rows is what it reads back, of all of them and of some keys."""
    found = sink.read_back(written.table, written.schema)
    assert found is not None
    assert not isinstance(found, str)
    stored: StoredTable = found
    expected = stored.stored(written.rows)
    keys = expected.select(["id"]).slice(1)
    for asked, wanted in ((None, expected), (keys, expected.slice(1))):
        batches = list(stored.rows(asked))
        assert {batch.schema for batch in batches} == {expected.schema}
        read = [row for batch in batches for row in batch.to_pylist()]
        assert sorted(read, key=lambda row: row["id"]) == wanted.to_pylist()
    assert sink.read_back(TableId("shop", "absent"), written.schema) is None
