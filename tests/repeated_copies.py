"""Snapshots whose tasks are repeated at a later moment of the table, into any sink."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest.mock import patch

from cdc_process import Pipeline

from cdc.offsets import numbered
from cdc.sink import Sink
from cdc.source import Context, Limits
from cdc.spec.check import check_file
from cdc.state.store import LocalStore
from cdc.testing import FailAt
from cdc.testing.local_pipeline import LocalPipeline

LIMITS = Limits(1 << 24, 5000)
FIFTY_ROWS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, n INT NOT NULL)",
    f"INSERT INTO orders VALUES {','.join(f'({n}, 0)' for n in range(50))}",
)


class PipelineInto(Pipeline):
    """A pipeline of this name with this sink."""

    def __init__(self, of: Pipeline, name: str, sink: dict[str, Any]) -> None:
        super().__init__(of.folder, of.source, of.password)
        self.name, self.sink = name, sink

    def write(self) -> None:
        document = {"source": self.source, "sink": self.sink, "pipeline": {"name": "proof"}}
        self.file.write_text(json.dumps(document), encoding="utf-8")


def copy_and_die_in_each_batch(pipeline: PipelineInto, change: Any) -> None:
    """A run to the end that the log has now, in which each batch dies several times once its tasks are through;
    `change` is called before it is repeated."""
    pipeline.write()
    with patch.dict(os.environ, {"MYSQL_PASSWORD": pipeline.password}):
        spec: Any = check_file(str(pipeline.file)).spec
    folders = {name: pipeline.state / name for name in ("source", "sink")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    source = spec.source.build(Context(pipeline.name, LocalStore(folders["source"]), metadata=spec.metadata()))
    sink = spec.sink.build(Context(pipeline.name, LocalStore(folders["sink"])))
    source.stop_at_current()

    def restarted() -> Sink:
        change()
        found: Sink = sink
        return found

    at, batch = source.initial_offset(), 0
    lives = LocalPipeline(source, sink, pipeline.state / "engine", numbered(at, 0), restarted)
    while (end := lives.latest(at, batch, LIMITS)) != at:
        lives.batch(numbered(at, batch), numbered(end, batch + 1), 1, [FailAt.PREPARED] * 4)
        source.commit(end)
        at, batch = end, batch + 1
    lives.finish(batch, at)
    source.stop()
