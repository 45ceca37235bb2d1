"""A SQL-like sink that was written for the tests passes the whole suite, schema changes included."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_sink import SqliteDialect, SqliteSink

from cdc.lines.format import decoded
from cdc.schema import DataType, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import SinkConformance, SinkHarness
from cdc.testing.sink_conformance import VALUES

TYPES = {"id": "BIGINT", "qty": "INT", "name": "STRING", "title": "STRING"}
_WORDS = ("INT", "BOOL", "FLOAT", "DOUBLE", "VECTOR")


class SqliteHarness:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "shop.sqlite"
        self._context = Context("pipeline-1", LocalStore(folder / "state"))

    def sink(self) -> SqliteSink:
        return SqliteSink(self._path, self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        with closing(sqlite3.connect(self._path)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [str(table)]).fetchone():
                return None
            found = connection.execute(f"SELECT * FROM {SqliteDialect().table_name(table)}")
            names = [item[0] for item in found.description]
            return [{name: _value(name, text) for name, text in zip(names, row, strict=True)} for row in found]


def _value(name: str, text: str | None) -> Any:
    data_type = DataType.parse(TYPES[name] if name in TYPES else VALUES[int(name[1:])][0])
    plain = json.loads(text) if text is not None and any(word in str(data_type) for word in _WORDS) else text
    return decoded(plain, data_type)


class TestSqliteSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> SinkHarness:
        return SqliteHarness(tmp_path)
