"""The process is killed at every statement of a commit and of a schema change; the next one makes it whole."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import duckdb
import pytest

SCRIPT = """
import os, signal, sys
from pathlib import Path
from cdc.schema import *
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import block
from connectors.duckdb.database import DuckDbSession
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

# Each line asks for one more process: a fork, as loading all of this again takes longer than what is tried.
for line in sys.stdin:
    given = line.strip().split(chr(9))
    child = os.fork()
    if child == 0:
        break
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

folder, step, kill_at, ends = Path(given[0]), given[1], int(given[2]), given[3]
run = DuckDbSession.rows
seen = 0

def rows(self, sql, values=()):
    global seen
    seen += 1
    if seen == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, sql, values)

columns = (Column("id", DataType.parse("INT")), Column("name", DataType.parse("STRING")))
keyed, keyless = TableSchema(columns, ("id",)), TableSchema(columns)
orders, log, tmp = TableId("shop", "orders"), TableId("shop", "log"), TableId("shop", "tmp")
options = DuckDbSinkOptions(type="duckdb", path=str(folder / "x.duckdb"))
sink = DuckDbSink(options, Context("p", LocalStore(folder / "state")))

def prepared(batch, *blocks):
    return sink.prepare(TaskAttempt(batch, 0, 0), iter(blocks))

if step == "setup":
    sink.apply(0, [CreateTable(orders, keyed), CreateTable(log, keyless)])
    sink.commit(0, prepared(0, block(orders, keyed, [("+I", {"id": n, "name": "old"}) for n in range(3)]),
                            block(log, keyless, [("+I", {"id": 7})] * 3)))
elif step == "commit":
    handles = prepared(1, block(orders, keyed, [("-U", {"id": 0, "name": "old"}), ("+U", {"id": 0, "name": "new"}),
                                                ("-D", {"id": 1, "name": "old"}), ("+I", {"id": 9})]),
                       block(log, keyless, [("-D", {"id": 7}), ("+I", {"id": 8}), ("+I", {"id": 8})]))
    DuckDbSession.rows = rows
    sink.commit(1, handles)
    DuckDbSession.rows = run
    sink.commit(1, handles)
elif step == "apply":
    DuckDbSession.rows = rows
    sink.apply(0, [RenameTable(orders, tmp), RenameTable(log, orders), RenameTable(tmp, log),
                AlterColumnType(log, Column("id", DataType.parse("BIGINT"))),
                AddColumn(log, Column("qty", DataType.parse("INT"), default="5"))])
if ends == "at once":
    os._exit(3)
print(seen, flush=True)

"""


class Forks:
    """Processes that each do one step on a folder: its exit code, and the statements that it saw."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def step(self, folder: Path, name: str, kill_at: int, ends: str = "in peace") -> tuple[int, int]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{folder}\t{name}\t{kill_at}\t{ends}\n")
        self._program.stdin.flush()
        seen = 0
        for line in self._program.stdout:
            word, _, code = line.strip().partition(" ")
            if word == "ended":
                return int(code), seen
            seen = int(word)
        raise AssertionError("the program has ended")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=PIPE, stdout=PIPE, text=True) as program:
        yield Forks(program)
        assert program.stdin is not None
        program.stdin.close()


def table(folder: Path, name: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "x.duckdb")) as connection:
        return list(connection.execute(f"FROM x.shop.{name} ORDER BY ALL").fetchall())


@pytest.mark.slow
def test_a_commit_killed_at_any_statement_is_whole_after_a_repeat(forks: Forks, tmp_path: Path) -> None:
    assert forks.step(tmp_path / "before", "setup", 0)[0] == 0
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    _, statements = forks.step(tmp_path / "whole", "commit", 0)
    expected = [table(tmp_path / "whole", name) for name in ("orders", "log")]
    assert expected == [[(0, "new"), (2, "old"), (9, None)], [(7, None), (7, None), (8, None), (8, None)]]
    assert statements > 8
    for kill_at in sorted({*range(1, statements, 3), statements - 1, statements}):
        folder = tmp_path / str(kill_at)
        shutil.copytree(tmp_path / "before", folder)
        assert forks.step(folder, "commit", kill_at)[0] == -9
        assert table(folder, "orders") == [(0, "old"), (1, "old"), (2, "old")]
        assert forks.step(folder, "commit", 0)[0] == 0
        assert [table(folder, name) for name in ("orders", "log")] == expected


@pytest.mark.slow
def test_schema_changes_killed_at_any_statement_are_whole_after_a_repeat(forks: Forks, tmp_path: Path) -> None:
    assert forks.step(tmp_path / "before", "setup", 0)[0] == 0
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    _, statements = forks.step(tmp_path / "whole", "apply", 0)
    expected = [table(tmp_path / "whole", name) for name in ("orders", "log")]
    assert expected == [[(7, None)] * 3, [(number, "old", 5) for number in range(3)]]
    for kill_at in range(1, statements + 1, 3):
        folder = tmp_path / str(kill_at)
        shutil.copytree(tmp_path / "before", folder)
        assert forks.step(folder, "apply", kill_at)[0] == -9
        assert forks.step(folder, "apply", 0)[0] == 0
        assert [table(folder, name) for name in ("orders", "log")] == expected


@pytest.mark.slow
def test_a_process_that_dies_right_after_the_commit_has_committed(forks: Forks, tmp_path: Path) -> None:
    assert forks.step(tmp_path, "setup", 0)[0] == 0
    assert forks.step(tmp_path, "commit", 0, "at once")[0] == 3
    assert table(tmp_path, "orders") == [(0, "new"), (2, "old"), (9, None)]
