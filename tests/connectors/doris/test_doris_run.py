"""The recorded binlog of the demo into Doris: the rows are those that another sink gets."""

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cdc_process import Pipeline
from direct import DirectRuns
from doris_harness import Harness
from doris_servers import DorisServer

from cdc.schema import TableId
from cdc.source import Context, Limits
from cdc.state.store import LocalStore
from cdc.testing import ListSink, run_in_memory
from connectors.mysql.binlog_files import BinlogFilesSource
from connectors.mysql.options import BinlogFilesSourceOptions

DEMO = Path(__file__).resolve().parents[3] / "pipelines" / "demo"
PIPELINE = """
source:
  type: binlog-files
  path: {path}/shop.binlog.*
  tables: shop.\\.*
sink:
  type: doris
  fenodes: {host}:{http}
  jdbc-url: jdbc:mysql://{host}:{sql}
  username: {user}
  password: "{password}"
  table.create.properties.replication_num: 1
  sink.keyless-changes: skip
pipeline:
  name: demo to doris {number}
  schema.change.behavior: evolve
"""


def source(folder: Path) -> BinlogFilesSource:
    options = BinlogFilesSourceOptions.model_validate(
        {"type": "binlog-files", "path": f"{DEMO}/shop.binlog.*", "tables": r"shop.\.*"}
    )
    folder.mkdir()
    return BinlogFilesSource(options, Context("expected", LocalStore(folder)))


def plain(value: Any) -> Any:
    """A value as both sinks can be compared by it."""
    if isinstance(value, int):
        return str(int(value))  # a LARGEINT comes as text
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return float(value) if isinstance(value, Decimal | float) else value


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str({name: plain(item[name]) for name in sorted(item)}) for item in rows)


class ToDoris(Pipeline):
    """The pipeline of the text above."""

    server: DorisServer

    def write(self) -> None:
        to = self.server
        self.file.write_text(
            PIPELINE.format(
                path=DEMO, host=to.host, http=to.http_port, sql=to.sql_port, user=to.user, password=to.password,
                number=os.getpid(),
            )
        )  # fmt: skip


@pytest.mark.slow
def test_the_demo_into_doris(doris: DorisServer, tmp_path: Path) -> None:
    doris.query("DROP DATABASE IF EXISTS shop FORCE")
    expected = ListSink()
    run_in_memory(source(tmp_path / "source"), expected)
    pipeline = ToDoris(tmp_path, {})
    pipeline.server = doris
    run = DirectRuns(pipeline, f"demo-{os.getpid()}").catch_up(Limits(1 << 26, 10**6))
    assert run.reasons["keyless-change-skipped"] == 35
    harness = Harness(doris, tmp_path / "unused")
    for name in ("customers", "orders", "order_items"):
        table = TableId("shop", name)
        found = harness.rows(table)
        assert found is not None
        assert comparable(found) == comparable(expected.rows(table))
    assert len(harness.rows(TableId("shop", "events_log")) or []) >= len(expected.rows(TableId("shop", "events_log")))
