"""An Iceberg warehouse in a folder, as tests meet it: sinks on it, and its rows by the library's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paimon_harness import plain

from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from connectors.iceberg.library import Catalog
from connectors.iceberg.options import IcebergSinkOptions
from connectors.iceberg.sink import IcebergSink
from connectors.iceberg.tables import LakeTable, find_table, get_table


class IcebergHarness:
    """One place that survives restarts; `properties` are options of the sink by their names in YAML."""

    def __init__(self, folder: Path, properties: dict[str, str] | None = None, pipeline: str = "pipeline-1") -> None:
        warehouse = folder / "lake"
        warehouse.mkdir(exist_ok=True)
        given = {"catalog.properties.type": "sql", "catalog.properties.warehouse": str(warehouse)}
        self.options = IcebergSinkOptions.model_validate({"type": "iceberg", **given, **(properties or {})})
        self.context = Context(pipeline, LocalStore(folder / f"state-{pipeline}"))
        self.catalog = Catalog(self.options.catalog_properties())

    def sink(self) -> IcebergSink:
        return IcebergSink(self.options, self.context)

    def table(self, table: TableId) -> LakeTable:
        return get_table(self.catalog, table)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        found = find_table(self.catalog, table)
        if found is None:
            return None
        return [plain(item) for item in found.library.scan().to_arrow().to_pylist()]
