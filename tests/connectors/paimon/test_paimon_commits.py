"""Commits to Paimon tables that are repeated, late, or about files that are not there any more."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness

from cdc.errors import LoadsLost
from cdc.schema import CreateTable, TableId, TruncateTable, shadow_of
from cdc.testing.sink_conformance import KEYED, KEYLESS, LOG, ORDERS, keyed, keyless, prepare, row
from connectors.paimon.library import identifier
from connectors.paimon.tables import SWAP

pytestmark = pytest.mark.slow


def test_files_that_are_gone_are_named(tmp_path: Path) -> None:
    """A cleaner of orphans takes what waits for too long; a snapshot that names such a file could not be read."""
    lake = PaimonHarness(tmp_path)
    sink = lake.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    waiting = prepare(sink, 0, [keyed("+I", row(1, "a")), keyless("+I", row(1))])
    for path in (tmp_path / "lake").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(LoadsLost) as lost:
        sink.commit(0, waiting)
    assert dict(lost.value.tables) == {str(ORDERS): 0}
    assert tuple(lost.value.uncertain) == (str(LOG),)
    assert (lake.rows(ORDERS), lake.rows(LOG)) == ([], [])
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))]))
    assert [item["name"] for item in lake.rows(ORDERS) or []] == ["a"]


def test_a_batch_is_in_once_when_its_files_are_merged_away(tmp_path: Path) -> None:
    """Repeated after upkeep, when the files of the batch are in other files, and are gone themselves."""
    lake = PaimonHarness(tmp_path)
    sink = lake.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    waiting = prepare(sink, 0, [keyed("+I", row(1, "a")), keyless("+I", row(1))])
    sink.commit(0, waiting)
    sink.commit(1, prepare(sink, 1, [keyed("+U", row(1, "b")), keyless("+I", row(2))]))
    sink.compact(ORDERS)
    sink.compact(LOG)
    last = prepare(sink, 2, [keyed("+U", row(1, "c")), keyless("+I", row(3))])
    for _ in range(2):
        lake.sink().commit(2, last)
    assert [item["name"] for item in lake.rows(ORDERS) or []] == ["c"]
    assert sorted(int(item["id"]) for item in lake.rows(LOG) or []) == [1, 2, 3]


def test_a_swap_that_was_cut_off_is_ended_where_the_database_has_a_dot(tmp_path: Path) -> None:
    """The partition fields are its own, too."""
    from pypaimon.schema.schema_change import SchemaChange

    lake, table = PaimonHarness(tmp_path, {"partition.key": "shop.eu.orders:name"}), TableId("shop.eu", "orders")
    lake.sink().apply(0, [CreateTable(table, KEYED)])
    assert lake.table(table).partition_keys == ("name",)
    catalog, copy = lake.catalog.open(), identifier(shadow_of(table))
    catalog.rename_table(identifier(table), copy)
    catalog.alter_table(copy, [SchemaChange.set_option(SWAP, str(table))], False)
    lake.sink().apply(1, [TruncateTable(table)])
    assert lake.rows(table) == []
