"""Lakes in an object store: batches, a replay, an abort and upkeep through an S3 server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness
from s3_server import S3Server

from cdc.schema import CreateTable, DropTable
from cdc.sink import TaskAttempt
from cdc.testing.sink_conformance import KEYED, KEYLESS, LOG, ORDERS, keyed, keyless, prepare, row

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

pytestmark = pytest.mark.slow


def iceberg(folder: Path, s3: S3Server, bucket: str) -> IcebergHarness:
    catalog = "catalog.properties."
    return IcebergHarness(
        folder,
        {
            f"{catalog}warehouse": f"{bucket}/lake", f"{catalog}uri": f"sqlite:///{folder}/catalog.db",
            f"{catalog}s3.endpoint": s3.endpoint, f"{catalog}s3.access-key-id": "key",
            f"{catalog}s3.secret-access-key": "word", f"{catalog}s3.region": "eu-central-1",
            "sink.compaction": "off", "sink.snapshots.keep": "1", "sink.snapshots.keep-for": "0s",
        },
    )  # fmt: skip


def paimon(folder: Path, s3: S3Server, bucket: str) -> PaimonHarness:
    catalog = "catalog.properties."
    return PaimonHarness(
        folder,
        {
            f"{catalog}warehouse": f"{bucket}/lake", f"{catalog}s3.endpoint": s3.endpoint,
            f"{catalog}s3.access-key": "key", f"{catalog}s3.secret-key": "word",
            f"{catalog}s3.region": "eu-central-1", f"{catalog}s3.path.style.access": "true", "sink.compaction": "off",
        },
    )  # fmt: skip


@pytest.mark.parametrize("lake", [iceberg, paimon])
def test_a_lake_in_a_bucket(tmp_path: Path, s3: S3Server, lake: Callable[..., Any]) -> None:
    bucket = s3.new_bucket()
    harness = lake(tmp_path, s3, bucket)
    sink = harness.sink()
    sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    for batch in range(4):
        blocks = [keyed("+I", row(1, f"{batch}")), keyed("+I", row(10 + batch)), keyless("+I", row(batch))]
        last = prepare(sink, batch, blocks)
        sink.commit(batch, last)
    harness.sink().commit(3, last)
    before = objects(s3, bucket)
    noted: list[Any] = []
    sink.prepare(TaskAttempt(4, 0, 0, noting=noted.append), iter([keyed("-D", row(1)), keyless("+I", row(9))]))
    assert objects(s3, bucket) > before
    harness.sink().abort(4, noted)
    assert objects(s3, bucket) == before
    sink.commit(4, prepare(sink, 4, [keyed("-D", row(10))]))
    for table in (ORDERS, LOG):
        assert "0 files merged" not in sink.compact(table)
    found = {item["id"]: item["name"] for item in harness.rows(ORDERS)}
    assert found == {1: "3", 11: row(11)["name"], 12: row(12)["name"], 13: row(13)["name"]}
    assert sorted(int(item["id"]) for item in harness.rows(LOG)) == [0, 1, 2, 3]
    sink.apply(5, [DropTable(ORDERS), CreateTable(ORDERS, KEYED)])
    sink.commit(5, prepare(sink, 5, [keyed("+I", row(7))]))
    assert [item["id"] for item in harness.rows(ORDERS)] == [7]


def objects(s3: S3Server, bucket: str) -> set[str]:
    """All but the empty ones that Arrow makes for folders."""
    found = s3.client().list_objects_v2(Bucket=bucket.removeprefix("s3://"))
    return {item["Key"] for item in found["Contents"] if not item["Key"].endswith("/")}
