"""A table that is written to in small batches stays as fast as it was: files, manifests and snapshots are few."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import Killed, PaimonHarness, killed_at

from cdc.schema import CreateTable, TableId
from cdc.testing.sink_conformance import KEYED, KEYLESS, LOG, ORDERS, keyed, keyless, prepare, row
from connectors.paimon.tables import live_files
from connectors.paimon.upkeep.manifests import expire_snapshots, merge_manifests
from connectors.paimon.upkeep.publishing import create
from connectors.paimon.upkeep.tiers import MOST_BYTES, choose_files

pytestmark = pytest.mark.slow

LATER = 4_102_444_800.0
"""The year 2100: everything is older than any table keeps it."""


def file(level: int, size: int, number: int = 0) -> Any:
    return SimpleNamespace(
        level=level, file_size=size, max_sequence_number=number, creation_time=0, file_name=str(number)
    )


def test_new_files_are_merged_with_runs_that_are_not_much_larger() -> None:
    new = [file(0, 10, number) for number in (3, 1, 2)]
    merge = choose_files([*new, file(4, 50, 0), file(5, 1000, -1)], 3)
    assert merge is not None
    assert [item.file_name for item in merge.files] == ["0", "1", "2", "3"]
    assert (merge.level, merge.last) == (4, False)


def test_what_is_left_of_a_bucket_decides_the_level() -> None:
    new = [file(0, 10, 1), file(0, 10, 2)]
    for runs, level, last in (([], 5, True), ([5], 4, False), ([2, 5], 1, False), ([1, 5], 4, False)):
        merge = choose_files([*new, *(file(run, 10_000 * run**4) for run in runs)], 2)
        assert merge is not None
        assert (merge.level, merge.last) == (level, last)


def test_too_few_or_too_large_files_are_left() -> None:
    assert choose_files([file(0, 10, 1)], 2) is None
    assert choose_files([file(0, 10, 1), file(0, MOST_BYTES, 2)], 2) is None
    whole = choose_files([file(0, 10, 1), file(5, MOST_BYTES)], 1, whole=True)
    assert whole is not None
    assert [item.level for item in whole.files] == [0]


def test_three_hundred_commits(tmp_path: Path) -> None:
    """Files and manifests do not grow with the number of commits, and the rows are those of the source."""
    lake = PaimonHarness(tmp_path, {"sink.compaction.files": "10"})
    sink = lake.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    for batch in range(120):
        blocks = [keyed("+I", row(batch % 50, f"{batch}")), keyless("+I", row(batch))]
        sink.commit(batch, prepare(sink, batch, blocks))
    assert sorted(int(item["id"]) for item in lake.rows(LOG) or []) == list(range(120))
    found = {item["id"]: item["name"] for item in lake.rows(ORDERS) or []}
    assert found == {number: str(max(at for at in range(120) if at % 50 == number)) for number in range(50)}
    for table in (ORDERS, LOG):
        assert len(live_files(lake.catalog, lake.table(table))) < 30
        assert manifests(lake, table) < 45


def manifests(lake: PaimonHarness, table: TableId) -> int:
    from pypaimon.manifest.manifest_list_manager import ManifestListManager

    library = lake.table(table).library
    return len(ManifestListManager(library).read_all(library.snapshot_manager().get_latest_snapshot()))


def test_expired_snapshots_take_their_files_and_nothing_else(tmp_path: Path) -> None:
    """What is left reads as before; a replay of the last batch still finds that it is in."""
    lake = PaimonHarness(tmp_path, {"sink.compaction.files": "5", "table.properties.snapshot.num-retained.min": "2"})
    sink = lake.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    for batch in range(30):
        blocks = [keyed("+I", row(batch % 7, f"{batch}")), keyless("+I", row(batch))]
        last = prepare(sink, batch, blocks)
        sink.commit(batch, last)
    before = [sorted(map(str, lake.rows(table) or [])) for table in (ORDERS, LOG)]
    for table in (ORDERS, LOG):
        sink.compact(table)
        assert expire_snapshots(lake.table(table), "cdc-pipeline-1", now=LATER) > 20
        assert expire_snapshots(lake.table(table), "cdc-pipeline-1", now=LATER) == 0
    assert [sorted(map(str, lake.rows(table) or [])) for table in (ORDERS, LOG)] == before
    lake.sink().commit(29, last)
    assert [sorted(map(str, lake.rows(table) or [])) for table in (ORDERS, LOG)] == before
    folder = tmp_path / "lake" / "shop.db" / "orders"
    live = {entry.file.file_name for entry in live_files(lake.catalog, lake.table(ORDERS))}
    assert len(list((folder / "bucket-0").iterdir())) <= len(live) + 3
    assert len(list((folder / "snapshot").glob("snapshot-*"))) <= 4


def test_snapshots_whose_expiry_was_interrupted_anywhere_expire_again(tmp_path: Path) -> None:
    """A list of manifests that was gone already stopped the expiry, and all upkeep after it, for good."""
    lake = PaimonHarness(tmp_path, {"sink.compaction": "off", "table.properties.snapshot.num-retained.min": "1"})
    sink, batch = lake.sink(), 0
    sink.apply(0, [CreateTable(ORDERS, KEYED)])
    for number in range(1, 100):
        for _ in range(2):
            sink.commit(batch, prepare(sink, batch, [keyed("+I", row(batch % 7, f"{batch}"))]))
            batch += 1
        try:
            with killed_at(number):
                expire_snapshots(lake.table(ORDERS), "cdc-pipeline-1", now=LATER)
        except Killed:
            expire_snapshots(lake.table(ORDERS), "cdc-pipeline-1", now=LATER)
        else:
            break
    assert number > 5
    assert len(lake.rows(ORDERS) or []) == 7
    folder = tmp_path / "lake" / "shop.db" / "orders"
    assert len(list((folder / "snapshot").glob("snapshot-*"))) == 1
    assert len(list((folder / "manifest").glob("manifest-list-*"))) == 2
    assert len(list((folder / "manifest").iterdir())) == 2 + manifests(lake, ORDERS)


def test_the_newest_batch_of_a_pipeline_outlives_its_snapshots(tmp_path: Path) -> None:
    """All of them have expired, by another system: files that are in are not committed again."""
    lake = PaimonHarness(tmp_path, {"sink.compaction": "off"})
    sink = lake.sink()
    sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
    last = prepare(sink, 1, [keyless("+I", row(2))])
    sink.commit(1, last)
    merge_manifests(lake.catalog, lake.table(LOG), "somebody", least=1)
    folder = tmp_path / "lake" / "shop.db" / "log" / "snapshot"
    for number in (1, 2):
        (folder / f"snapshot-{number}").unlink()
    (folder / "EARLIEST").write_text("3")
    lake.sink().commit(1, last)
    assert sorted(int(item["id"]) for item in lake.rows(LOG) or []) == [1, 2]


def test_nothing_expires_beside_a_tag(tmp_path: Path) -> None:
    lake = PaimonHarness(tmp_path, {"sink.compaction.files": "2"})
    sink = lake.sink()
    for batch in range(4):
        sink.commit(batch, prepare(sink, batch, [keyed("+I", row(1, f"{batch}"))], create=batch == 0))
    lake.table(ORDERS).library.create_tag("kept", snapshot_id=1)
    assert expire_snapshots(lake.table(ORDERS), "cdc-pipeline-1", now=LATER) == 0


def test_a_snapshot_is_published_once(tmp_path: Path) -> None:
    lake = PaimonHarness(tmp_path)
    assert create(lake.catalog, str(tmp_path / "snapshot-1"), b"mine")
    assert not create(lake.catalog, str(tmp_path / "snapshot-1"), b"theirs")
    assert (tmp_path / "snapshot-1").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot-1"]
