"""A Paimon lake in a folder, as tests meet it: sinks on it, and its rows as the Rust package reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sink_calls import span

from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from connectors.paimon.library import Catalog
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.rows import read_rows
from connectors.paimon.sink import PaimonSink
from connectors.paimon.tables import LakeTable, find_table, get_table


class PaimonHarness:
    """One place that survives restarts; `properties` are options of the sink by their names in YAML."""

    def __init__(self, folder: Path, properties: dict[str, str] | None = None, pipeline: str = "pipeline-1") -> None:
        given = {"catalog.properties.metastore": "filesystem", "catalog.properties.warehouse": str(folder / "lake")}
        self.options = PaimonSinkOptions.model_validate({"type": "paimon", **given, **(properties or {})})
        self.context = Context(pipeline, LocalStore(folder / f"state-{pipeline}"))
        self.catalog = Catalog(self.options.catalog_options())

    def sink(self) -> PaimonSink:
        return PaimonSink(self.options, self.context)

    def table(self, table: TableId) -> LakeTable:
        return get_table(self.catalog, table)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        found = find_table(self.catalog, table)
        if found is None:
            return None
        names = [column.name for column in found.columns]
        return [plain(item) for rows in read_rows(self.catalog, found, names) for item in rows.to_pylist()]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a lake as the suite has it: TIME is text there, BIGINT UNSIGNED a decimal number without a scale."""
    found = dict(row)
    if isinstance(found.get("c22"), str):
        found["c22"] = span(found["c22"])
    if isinstance(found.get("c8"), Decimal):
        found["c8"] = int(found["c8"])
    return found


def rest_options(address: str) -> dict[str, str]:
    """Options of a sink that writes through the server at this address."""
    given = {"metastore": "rest", "uri": address, "warehouse": "a name", "token.provider": "bear", "token": "secret"}
    return {f"catalog.properties.{name}": text for name, text in given.items()}


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """The process ends before it deletes the file or folder with that number, from 1."""
    left = [number]

    def killing(call: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any, **named: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            call(*arguments, **named)

        return called

    with patch.object(os, "unlink", killing(os.unlink)), patch.object(os, "rmdir", killing(os.rmdir)):
        yield
