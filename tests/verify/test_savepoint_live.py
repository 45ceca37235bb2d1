"""What a savepoint promises where the sink cannot tell which batches it has: what came after it comes once more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from load_pipeline import KINDS, finished, own_standin, sink_of
from running import ShortPipeline

from cdc.errors import SinkError
from cdc.job.edits import Edits
from cdc.job.savepoint import begin_from, create_savepoint
from cdc.source import Context
from cdc.spec.compiled import compile_spec
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
        self.look()
        self.pipeline.run()
        finished(self.standin)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.standin.query(f"SELECT * FROM {self.database}.{table}"))

    def keep(self) -> Path:
        return create_savepoint(self.pipeline.spec, self.pipeline.state.root)

    def look(self) -> None:
        """What the start of a run looks at, before it reads anything."""
        spec, state = self.pipeline.spec, self.pipeline.state
        pipeline = state.open(name=spec.name, source=spec.source.type)
        source, sink = (
            spec.source.build(Context(pipeline, state.source)),
            spec.sink.build(Context(pipeline, state.sink)),
        )
        Edits(spec, compile_spec(spec), state).check_tables(source, sink)

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
        assert "are committed again" in kept.back_to(savepoint)
        kept.run("INSERT INTO t VALUES (5, 5, 5, 5)")
        assert kept.rows("t") == [*expected, (5, 5, 5, 5)]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_were_dropped_or_renamed_since_are_put_back_first(
    mysql_server: MySqlServer, tmp_path: Path, kind: str
) -> None:
    with own_standin(kind) as standin:
        kept = Kept(mysql_server, standin, tmp_path)
        kept.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        savepoint = kept.keep()
        kept.run("INSERT INTO t VALUES (3, 3, 3)", "ALTER TABLE t DROP COLUMN b", "INSERT INTO t VALUES (4, 4)",
            "ALTER TABLE t RENAME COLUMN a TO z",
        )  # fmt: skip
        expected = kept.rows("t")
        kept.back_to(savepoint)
        kept.run()
        assert kept.rows("t") == expected == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_table_that_was_renamed_since_stops_the_run_which_names_the_way_out(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    with own_standin("starrocks") as standin:
        kept = Kept(mysql_server, standin, tmp_path)
        kept.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        savepoint = kept.keep()
        kept.run("INSERT INTO t VALUES (2)", "RENAME TABLE t TO u")
        kept.back_to(savepoint)
        with pytest.raises(SinkError, match=rf"are missing, or not visible.*{kept.database}\.t") as caught:
            kept.run()
        assert f"cdc resync FILE {kept.database}.t" in caught.value.hint
        assert kept.rows("u") == [(1,), (2,)]
