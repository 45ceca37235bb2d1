"""A pipeline into several DuckDB files, and other sinks beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cdc_process import Pipeline, mysql_pipeline
from small_workload import SmallWorkload

from cdc_services.server import MySqlServer


@dataclass
class Several(Pipeline):
    """A pipeline with DuckDB files as sinks, by name, and others. Queries go to the file `shown`."""

    files: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)
    shown: str = "one"

    @property
    def database(self) -> Path:
        return self.folder / f"{self.shown}.duckdb"

    def write(self) -> None:
        """The pipeline file."""
        ducks = [
            {"name": name, "type": "duckdb", "path": f"{name}.duckdb", "lock-timeout": "60 s"} for name in self.files
        ]
        settings = {"name": "proof", "schema.change.behavior": "evolve", **self.settings}
        document = {"source": self.source, "sink": [*ducks, *self.others], "pipeline": settings}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


def several(folder: Path, server: MySqlServer, work: SmallWorkload, *files: str, **options: Any) -> Several:
    made = mysql_pipeline(folder, server, work.pattern, **options)
    return Several(made.folder, made.source, made.password, files=list(files))


def assert_equal(pipeline: Several, work: SmallWorkload, *files: str) -> None:
    for name in files:
        pipeline.shown = name
        work.assert_equal(pipeline)
