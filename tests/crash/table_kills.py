"""Random lives of tables whose processes are killed at their calls: re-snapshots and swaps, renames, merged and edited
routes and rules, pauses.

    PYTHONPATH=tests:tests/crash:tests/flow:tests/devservers .venv/bin/python tests/crash/table_kills.py KIND [--seed N]

`test_random_lives` makes up what the source and the operator do; the batches of each step are run by forks that die at
a call (`killed_calls`), or in which calls fail (`failed_calls`), and then by one that has to come through. In the end
the sink has the source's rows, and nothing is left of what the dead ones had begun.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from call_kills import forked
from call_places import PLACES, Make, Place
from failed_calls import Fault, is_tolerated
from killed_calls import FILES, Doom
from test_random_lives import TO_TWO, Life

from cdc.errors import ChangeRefused, EditRefused
from cdc.flow import derive
from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.schema import TableId, shadow_of
from cdc.source import Offset, Order
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSink
from cdc.testing.local_pipeline import LocalPipeline
from cdc.transform.rules import Rules
from cdc.transform.sqltext import SqlText
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts

RULES = ("", r"\*, id + 1 AS x", r"\*, CAST(id AS BIGINT) AS x", r"\*, 'a' AS y")
"""Projections that do not name the columns whose names are exchanged."""
Plan = tuple[Offset, Offset]
_Found = tuple[str, list[str], Any]


class _Seen:
    """What is in the sink."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place, self._folder = place, folder

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        found = forked(lambda: self._place.rows(table), self._folder)
        if found is None:
            raise KeyError(table)
        return list(found)

    @property
    def tables(self) -> set[TableId]:
        return set(forked(self._place.tables, self._folder))

    def shadow(self, table: TableId) -> TableId:
        return shadow_of(table)


class Processes:
    """A pipeline whose batches are run by processes of their own."""

    def __init__(self, place: Place, folder: Path, source: Any, middle: Middle) -> None:
        self._place, self._folder, self._source, self.middle = place, folder, source, middle
        self.plans: dict[int, Plan] = {}
        self.first = 0

    def orders(self, batch: int) -> dict[TableId, Order]:
        return open_orders(TableLog(self._state().store).at(batch - 1).tables)

    def restart(self) -> None:
        """Each process is another one."""

    def wait(self) -> None:
        """The last process has ended."""

    def decided(self) -> int:
        """The last batch that is decided, -1 for none."""
        return CommitLog(self._state().commits).last()

    def live(self, doom: Doom | None, splits: int) -> list[str]:
        """What a run does from the first batch that Spark has not logged on; the calls that it made."""
        sink = self._place.sink(self._folder / "state/sink")
        if doom is not None:
            doom.settle(self._place.owners())
        first = {"item": 0}
        made = LocalPipeline(
            self._source, sink, self._state(), numbered(first, 0), lambda: sink, self.middle, name="lives"
        )  # fmt: skip
        for plan in self.plans.values():
            made.plan(*plan)
        sink.check()
        sink.last_committed_batch()
        made.recover()
        end = first
        for batch in range(self.first, len(self.plans)):
            made.latest(self.plans[batch][0], batch)
            made.batch(*self.plans[batch], splits)
        made.finish(len(self.plans), end)
        return doom.names if doom is not None else []

    def _state(self) -> StateDir:
        return StateDir(self._folder / "state")


class KilledLife(Life):
    """One life; `kind` is what happens to calls of its processes."""

    _rule = ""

    def __init__(self, seed: int, folder: Path, place: Place, kind: type[Doom] | None) -> None:
        super().__init__(seed, folder / "of-the-model", ListSink())
        self._folder, self._kind, self._own, self._fate = folder, kind, Random(f"own {seed}"), Random(f"fate {seed}")
        self._place, self._calls = place, ["open"] * 40
        self.deaths: Counter[str] = Counter()
        self.stopped, self._edits = "", True
        self.sink = _Seen(place, folder)
        self.state = StateDir(folder / "state")
        self.source.more = self._own.choice(((), ("comment",), ("comment", "retype")))
        self.sharded = self.sharded and self._own.random() < 0.3  # a rename stops most of them
        if self._own.random() < 0.3:
            self.all_routes = TO_TWO
            self.routes = self._own.choice(TO_TWO)
        forked(lambda: self.state.open(name="memory", source="lives"), folder)
        self.pipeline: Any = Processes(place, folder, self.source, self._middle())

    def _middle(self) -> Middle:
        """Each file has a rule, which is edited with the routes."""
        texts = RuleTexts(projection=SqlText(self._rule, "lives.yaml", "projection"))
        rules = Rules([RuleSource("transform[0]", r"shop.\.*", texts)], RuleSettings())
        return replace(super()._middle(), rules=rules if self._rule else None)

    def _edit(self) -> None:
        self._rule = self._own.choice(RULES)
        super()._edit()

    def notice(self, message: str, table: TableId, text: str) -> None:
        """What the engine warns of, in whichever process."""
        with (self._folder / "notices").open("a") as file:
            file.write(f"{table}\t{text!r}\n")

    def _batches(self, changes: list[Any], failures: Any = ()) -> None:
        self.source.add(*changes, *self.source.rows())
        plans = self.pipeline.plans
        while (end := self.source.latest_offset(self.at, None, 0.0)) != self.at:
            plans[self.batch] = numbered(self.at, self.batch), numbered(end, self.batch + 1)
            self.at, self.batch = end, self.batch + 1
        if self._edits and self._own.random() < 0.1:
            self._edit()
        splits = self._own.choice((1, 1, 2))
        for _ in range(self._fate.choice((0, 1, 1, 1, 2)) if self._kind else 0):
            doom = self._kind(
                self._at(), self._fate.choice(self._kind.moments),
                while_s=self._fate.uniform(0, self._kind.longest_s), width=self._fate.choice(self._kind.widths),
            )  # fmt: skip
            self._process(doom, splits)
            if self._edits and self._place.written is None and self._fate.random() < 0.15:
                self._edit()
        self._process(Doom(), splits)
        if self._kind is not None and self._place.written is None and self._fate.random() < 0.2:
            self._command(self._compact if self._fate.random() < 0.7 else self._request)

    def _command(self, command: Callable[[], None]) -> None:
        """A command beside the pipeline that is killed at a call, or in which one fails."""
        assert self._kind is not None
        note = self._folder / "death"
        note.unlink(missing_ok=True)
        doom = self._kind(self._fate.randint(1, 40), self._fate.choice(self._kind.moments), report=note.write_text)

        def run() -> None:
            doom.settle(self._place.owners())
            try:
                command()
            except Exception as error:
                if not note.exists() or not is_tolerated(error):
                    raise

        forked(run, self._folder)
        if note.exists():
            self.deaths[command.__name__] += 1
            self._note_death(f"{command.__name__} after batch {self.batch - 1}: {note.read_text()}")

    def _compact(self) -> None:
        sink = self._place.sink(self._folder / "state/sink")
        for table in sorted(self.tables.sinks):
            sink.compact(table)

    def _request(self) -> None:
        for table in sorted(self.source.tables):
            Mailbox(StateDir(self._folder / "state").store).add(table, RequestKind.SNAPSHOT)

    def _note_death(self, text: str) -> None:
        with (self._folder / "deaths").open("a") as file:
            file.write(f"{text}\n")

    def _settle(self) -> None:
        self._edits = False  # they count from the next batch on
        super()._settle()
        self._kind = None  # what faults have left of the last batch, the next one removes
        found: list[Any] = []
        for table in sorted(self.source.tables)[:1]:
            self.source.tables[table][-2] = 0
            found += self.source._logged(table, -2, [("+I", -2, 0)])
        self._batches(found)

    def _at(self) -> int:
        """A call; half of them are not of files, of which there are many."""
        others = [at for at, name in enumerate(self._calls, 1) if name not in FILES]
        return self._fate.choice(others if others and self._fate.random() < 0.5 else range(1, len(self._calls) + 1))

    def _process(self, doom: Doom, splits: int) -> None:
        """A process that may die; whatever it was, the next one starts where Spark's log says."""
        note, again, late = self._folder / "death", self._fate.random() < 0.5, self._fate.random() < 0.5
        note.unlink(missing_ok=True)
        doom.report = note.write_text
        try:
            ended = forked(lambda: self._tried(doom, note, splits, again=again), self._folder)
        except RuntimeError as error:
            raise AssertionError(f"{self.where()}, the next process ends: {error}") from error
        if note.exists():
            text = note.read_text()
            self.deaths[text.split(", ")[1]] += 1
            self._note_death(f"batches {self.pipeline.first} to {self.batch - 1}: {text}")
        elif ended is not None and not ended[0]:
            self._calls = ended[1] if len(ended[1]) > 20 else self._calls
            _preload(ended[2])
        self.pipeline.first = self.pipeline.decided() + 1
        if note.exists() and late and self.pipeline.first:
            self.pipeline.first -= 1
        if ended is not None and ended[0]:
            kind, _, text = ended
            self.stopped = text
            raise (ChangeRefused if kind == "ChangeRefused" else EditRefused)(text)

    def _tried(self, doom: Doom, note: Path, splits: int, *, again: bool) -> _Found:
        """A process that may fail after a fault, and goes on with another try or ends; what stopped it for good."""
        try:
            with patch.object(derive.log, "warning", self.notice):
                return self._until_stopped(doom, splits)
        except Exception as error:
            if not note.exists() or not is_tolerated(error):
                raise
            note.write_text(f"{note.read_text()}, {error}")
            doom.width = 0  # there is room again, and a connection
            return self._until_stopped(None, splits) if again else ("", [], "")

    def _until_stopped(self, doom: Doom | None, splits: int) -> _Found:
        try:
            return "", self.pipeline.live(doom, splits), sorted(sys.modules)
        except (ChangeRefused, EditRefused) as error:
            return type(error).__name__, [], str(error)

    def _check(self) -> None:
        if self._place.written is not None:
            return
        path = self._folder / "notices"
        for line in path.read_text().splitlines() if path.exists() else ():
            table, _, text = line.partition("\t")
            self.notices.add((table, literal_eval(text)))
        try:
            super()._check()
        except (AssertionError, KeyError) as error:
            raise AssertionError(f"{self.where()}: {error!r}") from error
        left = forked(self._place.left, self._folder)
        assert not left, f"{self.where()}: {left} are left"

    def written(self) -> dict[str, list[Any]]:
        """What a sink has that keeps each change."""
        found: dict[str, list[Any]] = forked(self._place.written, self._folder) if self._place.written else {}
        return found

    def where(self) -> str:
        """For messages: the folder, and what the processes died of."""
        path = self._folder / "deaths"
        return f"in {self._folder} after {path.read_text() if path.exists() else 'no death'}"


def _preload(modules: Sequence[str]) -> None:
    """What a process has imported, the next ones have from the start."""
    for name in set(modules) - set(sys.modules):
        with suppress(Exception):
            importlib.import_module(name)


def live(make: Make, seed: int, folder: Path, *, faults: bool = False) -> KilledLife:
    """One seed. Raises AssertionError."""
    place = make(folder)
    place.sink(folder / "state/sink").warm()
    life = KilledLife(seed, folder, place, Fault if faults else Doom)
    life.run()
    if place.written is not None:
        (other := folder / "undisturbed").mkdir()
        undisturbed = KilledLife(seed, other, make(other), None)
        undisturbed.run()
        assert life.stopped == undisturbed.stopped
        found, wanted = life.written(), undisturbed.written()
        different = {name: (found.get(name), wanted.get(name)) for name in found.keys() | wanted.keys()}
        different = {name: rows for name, rows in different.items() if rows[0] != rows[1]}
        assert not different, f"{life.where()}: {different}"
    return life


def run(kind: str, seeds: Sequence[int], *, faults: bool = False) -> None:
    """Each seed into a sink of a kind, on a server of its own. Raises AssertionError."""
    with PLACES[kind]() as make:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="cdc-lives-") as folder:
                life = live(make, seed, Path(folder), faults=faults)
            how = f", which stopped: {life.stopped}" * bool(life.stopped)
            print(
                f"  seed {seed} into {kind}{how}: {sum(life.deaths.values())} deaths, {dict(life.deaths)}", flush=True
            )


def main() -> None:
    """Some seeds by hand."""
    parser = argparse.ArgumentParser(description="Kills of processes at their calls, in random lives of tables.")
    parser.add_argument("kind", choices=sorted(PLACES))
    parser.add_argument("--seed", type=int, default=1, help="the first (1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument("--faults", action="store_true", help="calls fail, and no process is killed")
    options = parser.parse_args()
    run(options.kind, range(options.seed, options.seed + options.seeds), faults=options.faults)


if __name__ == "__main__":
    main()
