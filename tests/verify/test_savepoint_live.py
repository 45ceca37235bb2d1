"""What a savepoint promises where the sink cannot tell which batches it has: what came after it comes once more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from load_pipeline import KINDS, finished, own_standin, sink_of
from running import ShortPipeline

from cdc.job.savepoint import begin_from, make_savepoint
from cdc_services.server import MySqlServer
from cdc_standins import StandIn

pytestmark = pytest.mark.mysql


class Kept:
    """A pipeline into a stand-in, with a savepoint that it starts from again."""

    def __init__(self, server: MySqlServer, standin: StandIn, folder: Path) -> None:
        self.standin, self.database = standin, server.new_database("kept")
        self.pipeline = ShortPipeline(server, folder, self.database)
        document = yaml.safe_load(self.pipeline.file.read_text())
        document |= {"sink": sink_of(standin), "pipeline": {"schema.change.behavior": "evolve"}}
        self.pipeline.file.write_text(yaml.safe_dump(document))

    def run(self, *statements: str) -> None:
        self.pipeline.source(*statements)
        self.pipeline.run()
        finished(self.standin)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.standin.query(f"SELECT * FROM {self.database}.{table}"))

    def keep(self) -> Path:
        return make_savepoint(self.pipeline.spec, self.pipeline.state.root)

    def back_to(self, savepoint: Path) -> str:
        root = self.pipeline.state.root
        shutil.rmtree(root)
        return begin_from(self.pipeline.spec, savepoint, root)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_with_a_key_come_out_the_same(mysql_server: MySqlServer, tmp_path: Path, kind: str) -> None:
    with own_standin(kind) as standin:
        kept = Kept(mysql_server, standin, tmp_path)
        kept.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        savepoint = kept.keep()
        kept.run(
            "INSERT INTO t VALUES (3, 3, 3)", "UPDATE t SET a = 9, b = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2",
            "ALTER TABLE t ADD c INT", "INSERT INTO t VALUES (4, 4, 4, 4)",
        )  # fmt: skip
        expected = kept.rows("t")
        assert expected == [(1, 9, 9, None), (3, 3, 3, None), (4, 4, 4, 4)]
        assert "is committed once more" in kept.back_to(savepoint)
        kept.run("INSERT INTO t VALUES (5, 5, 5, 5)")
        assert kept.rows("t") == [*expected, (5, 5, 5, 5)]
