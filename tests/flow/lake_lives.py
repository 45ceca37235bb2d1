"""Random lives of tables (`test_random_lives`) with a lake as the sink: crashes, edited files, compaction between."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness
from test_random_lives import Life

from cdc.flow import derive
from cdc.schema import TableId
from connectors.iceberg.sink import IcebergSink
from connectors.paimon.sink import PaimonSink

_OPTIONS = {"sink.compaction.files": "3", "retry-timeout": "1s"}


class IcebergLife(IcebergSink):
    """The sink with a look at its tables."""

    harness: IcebergHarness

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        catalog = self.harness.catalog.open()
        return {
            TableId(".".join(name), table[-1])
            for name in catalog.list_namespaces()
            for table in catalog.list_tables(name)
        }


class PaimonLife(PaimonSink):
    """The sink with a look at its tables."""

    harness: PaimonHarness

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        catalog = self.harness.catalog.open()
        return {TableId(name, table) for name in catalog.list_databases() for table in catalog.list_tables(name)}


def live(lake: str, seed: int, folder: Path) -> None:
    """One life. Raises AssertionError with the seed when the lake does not end with the rows of the source."""
    sink: IcebergLife | PaimonLife
    if lake == "iceberg":
        iceberg = IcebergHarness(folder, {**_OPTIONS, "sink.snapshots.keep": "2", "sink.snapshots.keep-for": "0s"})
        sink = IcebergLife(iceberg.options, iceberg.context)
        sink.harness = iceberg
    else:
        paimon = PaimonHarness(folder, _OPTIONS)
        sink = PaimonLife(paimon.options, paimon.context)
        sink.harness = paimon
    life = Life(seed, folder / "state", sink)
    with patch.object(derive.log, "warning", life.notice):
        life.run()
