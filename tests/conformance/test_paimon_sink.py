"""The behaviours of a sink, over Paimon: read by its Rust package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from cdc.errors import SinkError
from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import SinkConformance
from cdc.testing.sink_conformance import keyless, prepare, row
from connectors.paimon.library import Catalog
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.rows import read_rows
from connectors.paimon.sink import PaimonSink
from connectors.paimon.tables import Tables

pytestmark = pytest.mark.slow  # a few hundred snapshots


class PaimonHarness:
    def __init__(self, folder: Path, **properties: str) -> None:
        given = {"catalog.properties.metastore": "filesystem", "catalog.properties.warehouse": str(folder / "lake")}
        self._options = PaimonSinkOptions.model_validate({"type": "paimon", **given, **properties})
        self._context = Context("pipeline-1", LocalStore(folder / "state"))

    def sink(self) -> PaimonSink:
        return PaimonSink(self._options, self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        catalog = Catalog(self._options.catalog_options())
        found = Tables(catalog).find(table)
        if found is None:
            return None
        names = [column.name for column in found.columns]
        return [plain(item) for rows in read_rows(catalog, found, names) for item in rows.to_pylist()]


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """TIME is text in the lake, BIGINT UNSIGNED a decimal number without a point."""
    from datetime import timedelta
    from decimal import Decimal

    def value(name: str, given: Any) -> Any:
        if name == "c22" and isinstance(given, str):  # TIME(6)
            sign, text = (-1, given[1:]) if given.startswith("-") else (1, given)
            hours, minutes, seconds = text.split(":")
            return sign * timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        return int(given) if isinstance(given, Decimal) and given == int(given) and name == "c8" else given

    return {name: value(name, given) for name, given in item.items()}


class TestPaimonSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> PaimonHarness:
        return PaimonHarness(tmp_path)

    def test_a_delete_takes_one_of_equal_rows(self, harness: PaimonHarness) -> None:
        """A table without a key only grows: it is an error that says so, and nothing is lost silently."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
        with pytest.raises(SinkError, match="without a key"):
            prepare(sink, 1, [keyless("-D", row(1))])
