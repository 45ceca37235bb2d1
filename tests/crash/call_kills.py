"""A sink whose process is killed at its calls to servers and files, whichever they are, and the process that goes on.

    PYTHONPATH=tests:tests/crash:tests/flow:tests/devservers .venv/bin/python tests/crash/call_kills.py KIND [--seed N]

Each life is a fork that does what a run does: it checks the sink, commits what was decided, carries out and announces
schema changes, prepares rows and commits them. It dies before, while or after the n-th call that it makes
(`killed_calls`). The next life may die as well; the one after it has to come through at its first try, with a sink that
waits for `call_places.WAIT` only, and then the sink has what the source has. `--all` takes each call in turn. With
`--faults` no process is killed, and calls fail (`failed_calls`): a life gets over that, or ends with an error after
which the next one, or the same process, goes on.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from call_places import GIVEN, PLACES, Make, Place
from failed_calls import Fault, is_tolerated
from killed_calls import MOMENTS, Doom
from load_engine import Item, LoadEngine

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.schema import (
    AddColumn,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    SchemaChange,
    SourceStatement,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import KeylessRows, Sink
from cdc.state.decisions import CommitLog
from cdc.testing.blocks import block

KEYED, KEYLESS, SIDE = (TableId("shop", name) for name in ("keyed", "keyless", "side"))
_INT = DataType.parse("INT")
_COLUMNS = (Column("id", _INT, False), Column("n", _INT))
BATCHES = 12
STUCK_S = float(os.environ.get("CDC_STUCK_S", "300"))
"""A process that takes so long hangs: it tells where."""
_EVOLVE = Middle(policy=Policy(Behavior.EVOLVE))


@dataclass
class Work:
    """Batches of changes that somebody makes up, and what they leave."""

    chance: Random
    keyless: bool
    rows: dict[TableId, dict[int, int]] = field(default_factory=dict)
    said: dict[TableId, list[int | None]] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    more: tuple[Column, ...] = ()
    serial: int = 0

    def batch(self) -> list[Item]:
        """Schema changes, and rows."""
        return [*(self._created() if not self.rows else self._altered()), *self._blocks()]

    def _created(self) -> list[Item]:
        tables = (KEYED, KEYLESS) if self.keyless else (KEYED,)
        return [self._create(table) for table in tables]

    def _altered(self) -> list[Item]:
        found: list[Item] = []
        for _ in range(self.chance.choice((0, 1, 1, 2))):
            kind = self.chance.choice(("column", "column", "side", "truncate"))
            if kind == "column":
                found.append(self._stated(self._column()))
            elif kind == "truncate":
                self.rows[KEYED].clear()
                found.append(self._stated(TruncateTable(KEYED)))
            elif SIDE in self.rows:
                del self.rows[SIDE]
                found.append(self._stated(DropTable(SIDE)))
            else:
                found.append(self._create(SIDE))
        return found

    def _column(self) -> SchemaChange:
        """A new column, or no longer: a name that was there before is not taken again, which some servers refuse."""
        if self.more:
            (column,), self.more = self.more, ()
            return DropColumn(KEYED, column.name)
        self.more = (Column(f"more{self.serial}", _INT),)
        return AddColumn(KEYED, self.more[0])

    def _create(self, table: TableId) -> SchemaChange:
        self.rows[table] = {}
        return self._stated(CreateTable(table, self._schema(table)))

    def _schema(self, table: TableId) -> TableSchema:
        more = self.more if table == KEYED else ()
        return TableSchema((*_COLUMNS, *more), () if table == KEYLESS else ("id",))

    def _stated(self, change: Any) -> Any:
        self.serial += 1
        sql = f"/* {self.serial} */ {type(change).__name__}"
        if isinstance(change, DropTable):  # of which only the table is said
            self.statements.append(f"DROP TABLE `{change.table.database}`.`{change.table.table}`")
        elif not isinstance(change, TruncateTable):  # which is a message among those of the table
            self.statements.append(sql)
        statement = SourceStatement(
            sql, "binlog.000001", self.serial * 100, self.serial * 100 + 9, 1_700_000_000_000, 1
        )
        return replace(change, statement=statement)

    def _blocks(self) -> list[Item]:
        found: list[Item] = []
        for table in self.chance.choices(sorted(self.rows), k=self.chance.randint(2, 5)):
            images: list[tuple[str, dict[str, int]]] = []
            for _ in range(self.chance.randint(1, 4)):
                images += self._change(table)
            self.serial += 1
            found.append(block(table, self._schema(table), images, sequence=self.serial))
        return found

    def _change(self, table: TableId) -> list[tuple[str, dict[str, int]]]:
        self.serial += 1
        rows, new = self.rows[table], self.serial
        key = new if table == KEYLESS else self.chance.randrange(6)
        old = rows.get(key)
        before = {"id": key, "n": old or 0}
        if old is not None and self.chance.random() < 0.3:
            del rows[key]
            self.said.setdefault(table, []).append(None)
            return [("-D", before)]
        rows[key] = new
        self.said.setdefault(table, []).append(new)
        after = {"id": key, "n": new}
        return [("+I", after)] if old is None else [("-U", before), ("+U", after)]


class Try:
    """One seed: a pipeline whose process is killed again and again."""

    def __init__(self, make: Make, folder: Path, seed: int, *, kind: type[Doom] = Doom) -> None:
        self._kind = kind
        self._chance, self._folder = Random(seed), folder
        self._place: Place = make(folder)
        sink = self._place.sink(folder / "state/sink")
        sink.warm()
        self._work = Work(Random(seed), sink.keyless is not KeylessRows.REFUSED)
        self._engine = LoadEngine(folder / "state", lambda store: sink, lambda: None, middle=_EVOLVE)
        self._engine.in_order = self._place.messages is not None
        self._calls = 40
        self.deaths: Counter[str] = Counter()

    def run(self, batches: int) -> None:
        """So many batches, each begun by a process that is killed. Raises AssertionError."""
        self._engine.add(self._work.batch())
        for _ in range(batches):
            deaths: list[str] = []
            for at in self._moments():
                doom = self._kind(*at, while_s=self._chance.uniform(0, self._kind.longest_s))
                doom.width = self._chance.choice(self._kind.widths)
                self._life(doom, deaths)
            self._through(deaths)
            self._engine.add(self._work.batch())
        self._through([])

    def run_all(self, moment: str) -> None:
        """A batch for each call, until one has no more. Raises AssertionError."""
        self._engine.add(self._work.batch())
        at = 1
        while True:
            deaths: list[str] = []
            self._life(Doom(at, moment), deaths)
            self._through(deaths)
            if not deaths:
                return
            self._engine.add(self._work.batch())
            at += 1

    def _moments(self) -> list[tuple[int, str]]:
        """Which calls kill."""
        number = self._chance.choice((1, 1, 2))
        return [(self._chance.randint(1, self._calls), self._chance.choice(self._kind.moments)) for _ in range(number)]

    def _life(self, doom: Doom, deaths: list[str]) -> None:
        note = self._folder / "death"
        note.unlink(missing_ok=True)
        doom.report = note.write_text
        self._engine.rng, again = Random(self._chance.random()), self._chance.random() < 0.5
        ended = forked(lambda: self._tried(doom, note, again=again), self._folder)
        if note.exists():
            assert ended is None or self._kind is not Doom, "it died and went on"
            deaths.append(note.read_text())
            self.deaths[note.read_text().split(", ")[1]] += 1
        else:
            self._calls = max(ended, 20)
        decided = CommitLog(self._engine.state.commits).last()
        # Spark logs a batch after it was decided, or is killed before it does.
        late = note.exists() and decided >= 0 and self._chance.random() < 0.5
        self._engine.logged = decided + 1 - late

    def _through(self, deaths: Sequence[str]) -> None:
        """A life that nothing happens to, and a look at the sink."""
        where = f"in {self._folder} after {' and '.join(deaths) or 'no death'}"
        try:
            self._life(Doom(), [])
        except RuntimeError as error:
            raise AssertionError(f"{where}, the next process ends: {error}") from error
        if found := forked(self._difference, self._folder):
            raise AssertionError(f"{where}: {found}")

    def _tried(self, doom: Doom, note: Path, *, again: bool) -> int:
        """A life that may fail after a fault, and is begun again in the same process, or not."""
        try:
            return self._live(doom)
        except Exception as error:
            if not note.exists() or not is_tolerated(error):
                raise
            note.write_text(f"{note.read_text()}, {error}")
            doom.width = 0  # there is room again, and a connection
            return self._live(None) if again else 0

    def _live(self, doom: Doom | None) -> int:
        """What a run does, and how many calls it made."""
        engine, place, keyless = self._engine, self._place, (KEYLESS,) * self._work.keyless
        sink: Sink = place.sink(self._folder / "state/sink")
        if doom is not None:
            doom.settle(place.owners())
        engine.make_sink = lambda store: sink
        sink.check()
        sink.last_committed_batch()
        sink.missing_tables([KEYED, *keyless])
        engine.live()
        return len(doom.names) if doom is not None else 0

    def _difference(self) -> str:
        place, work = self._place, self._work
        if place.messages is not None and place.statements is not None:
            for table, said in work.said.items():
                found = [None if row is None else row["n"] for row in place.messages(table)]
                if Counter(found) != Counter(said):
                    return f"{table} has the changes {found}, not {said}"
            told = place.statements()
            return "" if told == work.statements else f"told were {told}, not {work.statements}"
        for table in (KEYED, KEYLESS, SIDE):
            rows = place.rows(table)
            given = None if rows is None else Counter((row["id"], row["n"]) for row in rows)
            wanted = Counter(work.rows[table].items()) if table in work.rows else None
            if given != wanted and not (table == KEYLESS and not work.keyless):
                return f"{table} has {given}, not {wanted}"
        return ""


def forked(call: Callable[[], Any], folder: Path) -> Any:
    """The result of a call in a process of its own; None when that was killed. Raises RuntimeError with its error."""
    answer = folder / "answer"
    child = os.fork()
    if child == 0:
        code, stuck = 1, open(folder / "stuck", "w")  # noqa: SIM115 - it stays open for as long as the process lives
        try:
            faulthandler.dump_traceback_later(STUCK_S, exit=True, file=stuck)
            answer.write_bytes(pickle.dumps(call()))
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the process that waits says it
            answer.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    if os.WEXITSTATUS(status):
        raise RuntimeError((folder / "stuck").read_text() or answer.read_text()[-6000:])
    return pickle.loads(answer.read_bytes())


def run(
    kind: str,
    seeds: Sequence[int],
    *,
    batches: int = BATCHES,
    every: bool = False,
    server: str = "",
    faults: bool = False,
) -> None:
    """Each seed into a sink of a kind, on a server of its own if none is given. Raises AssertionError."""
    with nullcontext(GIVEN[kind](json.loads(server))) if server else PLACES[kind]() as make:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="cdc-calls-") as folder:
                tried = Try(make, Path(folder), seed, kind=Fault if faults else Doom)
                if every:
                    for moment in MOMENTS[:2]:
                        tried.run_all(moment)
                else:
                    tried.run(batches)
            print(f"  seed {seed} into {kind}: {sum(tried.deaths.values())} deaths, {dict(tried.deaths)}", flush=True)


def main() -> None:
    """Some seeds by hand."""
    parser = argparse.ArgumentParser(description="Kills of processes at their calls.")
    parser.add_argument("kind", choices=sorted(PLACES))
    parser.add_argument("--seed", type=int, default=1, help="the first (1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument("--all", action="store_true", help="each call in turn, before and after it")
    parser.add_argument("--faults", action="store_true", help="calls fail, and no process is killed")
    parser.add_argument("--batches", type=int, default=BATCHES, help=f"how many a seed has ({BATCHES})")
    parser.add_argument("--server", default="", help="fields of a server that is there, as JSON")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    run(options.kind, seeds, batches=options.batches, every=options.all, server=options.server, faults=options.faults)


def run_apart(kind: str, *arguments: str, script: str = __file__) -> None:
    """The same by a process of its own, which has no threads of anybody else. Raises AssertionError."""
    tests = Path(__file__).parent.parent
    path = {"PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, str(tests), str(tests / "flow")]))}
    program = [sys.executable, script, kind, *arguments]
    done = subprocess.run(program, env={**os.environ, **path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


if __name__ == "__main__":
    main()
