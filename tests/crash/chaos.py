"""`make chaos`: faults and signals at moments nobody chose, seed after seed, and a comparison at the end of each.

A seed is one pipeline from a real server into one DuckDB file or two, while somebody keeps writing and altering. It has
a number of lives, before which a sink may be added or taken out; each is ended in a random way at a random moment of
its start, of its run or of its stop:

- SIGINT to the process group (Ctrl-C), SIGTERM to the driver, SIGTERM to the group: has to end with exit code 0,
- the same and a second signal a moment later: 0 or 130,
- SIGKILL of the driver, or a crash point of `cdc.process.faults`: anything may be left, the next life goes on,
- SIGKILL of a Python worker, or of Java: the run goes on or ends with exit code 5.

Then the pipeline runs to the end of the log, and source and sink are compared row by row. The seed is printed before it
begins and repeats the same choices (`--seed N`); how far a life has got by then depends on the machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import altered_kills
import broker_kills
import call_kills
import lake_kills
import live_debezium
import message_fuzz
import server_lives
import shard_kills
import table_kills
import topic_rounds
from call_places import PLACES
from cdc_process import CdcRun, ended
from function_model import differing as functions_differing
from lake_lives import live
from middle_model import differing
from operated_lives import differing_life
from random_pairs import SINKS, differing_pairs
from rule_runs import differing_world
from servers import FLAVORS, own_servers
from several_pipeline import Several, assert_equal, several
from small_workload import SmallWorkload

from cdc.process.faults import POINTS
from cdc.process.signals import ABORTED

MIDDLES = 500
"""Random pipelines without a server, by which it begins (`middle_model`)."""

WORLDS = 60
"""Random pipelines between a live server and a sink, in this process (`rule_runs`)."""

ALTERED = 6
"""Tables altered while they are copied, and killed processes, without Spark (`altered_kills`, `shard_kills`)."""

BROKERS = 4
"""Kafka brokers killed at random steps of the sink, six a seed, without Spark (`broker_kills`)."""

MUTATIONS = 1_000_000
"""Recorded messages with something wrong in them, through the Kafka source, in this process (`message_fuzz`)."""

CALLS = 3
"""Processes killed at their calls to servers and files, and calls that fail, so many seeds for each sink, without Spark
(`call_kills`)."""

TOPICS = 2
"""Two pipelines at once, through Kafka, with processes and the broker killed (`topic_rounds`)."""

LAKES = 100
"""Lives of tables into Iceberg and Paimon, so many of each, in this process (`lake_lives`)."""

LAKE_KILLS = 4
"""Pipelines into each lake whose process is killed within commits, without Spark (`lake_kills`)."""

LAKE_RUNS = 1
"""The same by `cdc run`."""

SERVERS = 20
"""Lives of tables into Elasticsearch, OpenSearch and databases that are killed, so many of each (`server_lives`)."""

OPERATED = 12
"""Lives of a live server's tables under all that an operator does, in this process (`operated_lives`)."""

PAIRS = 8
"""Columns made into other types, 120 a seed (`random_pairs`)."""

_FILES = (("one",), ("two",), ("one", "two"))
"""DuckDB files that are a pipeline's sinks. They are other ones from time to time."""

START_S = 20.0
"""About as long as a start takes on a busy machine: moments of the start are drawn from it."""


def main() -> None:
    """Run the seeds; exit code 1 when one of them fails, with its number."""
    options = _options()
    first = options.seed if options.seed is not None else Random().randrange(1 << 30)
    deadline = time.monotonic() + options.minutes * 60
    middles = range(first, first + (1 if options.seed is not None else MIDDLES))
    print(f"rules, routes and behaviors, seeds {middles.start} to {middles.stop - 1}", flush=True)
    for text in (found := differing(middles)):
        print(text, flush=True)
    print("functions, the same seeds", flush=True)
    for text in (wrong := functions_differing(middles)):
        print(text, flush=True)
    if found or wrong:
        raise SystemExit(1)
    if options.connect is not None:
        live_debezium.run(options.connect, first)
    _worlds(first, 1 if options.seed is not None else WORLDS)
    _pairs(first, 1 if options.seed is not None else PAIRS)
    _operated(first, 1 if options.seed is not None else OPERATED)
    _altered(first, 1 if options.seed is not None else ALTERED)
    _brokers(first, 1 if options.seed is not None else BROKERS)
    _calls(first, 1 if options.seed is not None else CALLS)
    _topics(first, 1 if options.seed is not None else TOPICS)
    _lakes(first, 1 if options.seed is not None else LAKES)
    lake_kills.run(range(first, first + (1 if options.seed is not None else LAKE_KILLS)))
    lake_kills.run(range(first, first + LAKE_RUNS), spark=True)
    _servers(first, 1 if options.seed is not None else SERVERS)
    _mutations(first, 10_000 if options.seed is not None else MUTATIONS)
    seeds = [first + number for number in range(1 if options.seed is not None else options.seeds)]
    for done, seed in enumerate(seeds):
        if time.monotonic() > deadline:
            print(f"{options.minutes} minutes are over: {done} of {len(seeds)} seeds were run", flush=True)
            break
        print(f"seed {seed} (repeat: make chaos ARGS='--seed {seed} --lives {options.lives}')", flush=True)
        with tempfile.TemporaryDirectory(prefix="cdc-chaos-") as folder:
            Chaos(Random(seed), Path(folder), options.lives).run()
    print("source and sink are equal", flush=True)


def _worlds(first: int, count: int) -> None:
    """Rules, routes, behaviors and schema changes on both servers into all sinks. Exit code 1 at a difference."""
    print(f"the same on servers, seeds {first} to {first + count - 1}", flush=True)
    with own_servers() as make:
        servers = [make(flavor) for flavor in FLAVORS]
        for seed in range(first, first + count):
            kind = ("duckdb", "duckdb", "doris", "starrocks")[seed // 2 % 4]
            with tempfile.TemporaryDirectory(prefix="cdc-world-") as folder:
                found = differing_world(servers[seed % 2], kind, seed, Path(folder))
                if found:
                    told = (Path(folder) / "world.sql").read_text(encoding="utf-8")
                    raise SystemExit("\n".join([told, f"seed {seed}, {servers[seed % 2].flavor} into {kind}", *found]))


def _pairs(first: int, count: int) -> None:
    """Columns of every type made into every other, on both servers, into all sinks. Exit code 1 at a difference."""
    print(f"types that become others, seeds {first} to {first + count - 1}", flush=True)
    with own_servers() as make:
        servers = [make(flavor) for flavor in FLAVORS]
        for seed in range(first, first + count):
            sink = SINKS[seed // 2 % len(SINKS)]
            with tempfile.TemporaryDirectory(prefix="cdc-pairs-") as folder:
                if found := differing_pairs(servers[seed % 2], sink, seed, Path(folder)):
                    raise SystemExit(f"seed {seed}, {servers[seed % 2].flavor} into {sink}\n{found}")


def _operated(first: int, count: int) -> None:
    """Tables that are paused, re-snapshotted, excluded and routed elsewhere while they change. Exit code 1."""
    print(f"tables under an operator's hands, seeds {first} to {first + count - 1}", flush=True)
    with own_servers() as make:
        servers = [make(flavor) for flavor in FLAVORS]
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory(prefix="cdc-operated-") as folder:
                if found := differing_life(servers[seed % 2], seed, Path(folder)):
                    told = (Path(folder) / "life.txt").read_text(encoding="utf-8")
                    raise SystemExit(f"{told}\nseed {seed}, {servers[seed % 2].flavor}: {found}")


def _altered(first: int, count: int) -> None:
    """Tables that are altered while they are copied, by processes that are killed. Exit code 1 at a difference."""
    print(f"definitions that change under copies, seeds {first} to {first + count - 1}", flush=True)
    seeds = range(first, first + count)
    if found := [*altered_kills.run(seeds), *shard_kills.run(seeds)]:
        raise SystemExit("\n".join(found))


def _brokers(first: int, count: int) -> None:
    """A broker that is killed at steps of the Kafka sink. Raises AssertionError at a difference."""
    print(f"brokers killed at steps of the Kafka sink, seeds {first} to {first + count - 1}", flush=True)
    broker_kills.run(range(first, first + count))


def _calls(first: int, count: int) -> None:
    """Processes that die at a call to a server or a file, or where one fails. Raises AssertionError at a difference."""
    print(f"processes killed at their calls, seeds {first} to {first + count - 1}", flush=True)
    for kind in PLACES:
        for more in ([], ["--faults"]):
            for script in (call_kills.__file__, table_kills.__file__):
                call_kills.run_apart(kind, "--seed", str(first), "--seeds", str(count), *more, script=script)


def _topics(first: int, count: int) -> None:
    """From MySQL through Kafka into DuckDB. Raises AssertionError at a difference."""
    print(f"through Kafka, two pipelines at once, seeds {first} to {first + count - 1}", flush=True)
    topic_rounds.run(range(first, first + count))


def _lakes(first: int, count: int) -> None:
    """Tables that are snapshotted, altered, paused and routed elsewhere, into lakes. Raises AssertionError."""
    print(f"lives of tables into lakes, seeds {first} to {first + count - 1}", flush=True)
    for seed in range(first, first + count):
        for lake in ("iceberg", "iceberg-rest", "paimon", "paimon-rest"):
            with tempfile.TemporaryDirectory(prefix="cdc-lake-") as folder:
                live(lake, seed, Path(folder))


def _servers(first: int, count: int) -> None:
    """The same into servers of documents and databases, killed within every 25th commit. Raises AssertionError."""
    print(f"lives of tables into servers, seeds {first} to {first + count - 1}", flush=True)
    for kind in server_lives.KINDS:
        with server_lives.server_of(kind) as server:
            for seed in range(first, first + count):
                with tempfile.TemporaryDirectory(prefix="cdc-server-") as folder:
                    server_lives.live(server, kind, seed, Path(folder), kills=0.04)


def _mutations(first: int, count: int) -> None:
    """Messages that no tool writes, through the Kafka source. Exit code 1 when one is neither read nor refused."""
    print(f"{count} mutated messages, seed {first}", flush=True)
    if found := next(message_fuzz.problems(first, count), None):
        raise SystemExit(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random faults and signals, then a comparison of source and sink.")
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    parser.add_argument("--lives", type=int, default=8, help="starts per seed that are ended in the middle (8)")
    parser.add_argument("--minutes", type=float, default=60, help="no further seed begins after this long (60)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--connect", type=Path, help="Kafka Connect with Debezium: begin with `live_debezium`")
    return parser.parse_args()


class Chaos:
    """One seed."""

    def __init__(self, rng: Random, folder: Path, lives: int) -> None:
        self._rng, self._folder, self._lives = rng, folder, lives
        self._ends: dict[str, Callable[[CdcRun], tuple[int, ...]]] = {
            "Ctrl-C": self._interrupt,
            "SIGTERM": lambda run: self._send(run, signal.SIGTERM, 0),
            "SIGTERM to all": self._terminate_all,
            "two signals": self._twice,
            "SIGKILL": lambda run: self._send(run, signal.SIGKILL, -signal.SIGKILL),
            "SIGKILL of a worker": lambda run: self._kill(run, "pyspark.daemon"),
            "SIGKILL of Java": lambda run: self._kill(run, "org.apache.spark.deploy.SparkSubmit"),
        }

    def run(self) -> None:
        """All lives, then to the end. Raises AssertionError, with the output of the life that was wrong."""
        with own_servers() as make:
            server = make(self._rng.choice(FLAVORS))
            work = SmallWorkload.on(server)
            mode = self._rng.choice(("initial", "earliest-offset"))
            work.round(200)
            pipeline = several(self._folder, server, work, *self._rng.choice(_FILES), scan__startup__mode=mode)
            print(f"  {server.flavor} {server.version}, scan.startup.mode {mode}", flush=True)
            with ended(pipeline):
                self._live(pipeline, work)
                pipeline.catch_up()
                assert_equal(pipeline, work, *pipeline.files)
                assert "0 changes in 0 batches" in pipeline.catch_up().output

    def _live(self, pipeline: Several, work: SmallWorkload) -> None:
        enough = threading.Event()
        writer = threading.Thread(target=self._write, args=(work, Random(self._rng.random()), enough))
        writer.start()
        try:
            for life in range(self._lives):
                self._life(pipeline, work, life)
        finally:
            enough.set()
            writer.join()

    def _write(self, work: SmallWorkload, rng: Random, enough: threading.Event) -> None:
        while not enough.wait(0.1):
            work.round(10)
            if rng.random() < 0.02:
                work.change_columns()

    def _life(self, pipeline: Several, work: SmallWorkload, life: int) -> None:
        rng = self._rng
        if rng.random() < 0.3:
            pipeline.files = [*rng.choice(_FILES)]
            print(f"  life {life}: the sinks are {' and '.join(pipeline.files)}", flush=True)
        if rng.random() < 0.25:
            point = rng.choice(POINTS)
            print(f"  life {life}: crash point {point}", flush=True)
            run = pipeline.start(env={"CDC_CRASH_AT": point})
            self._wait(run, 3 * START_S)
            run.kill_all()
            return
        name = rng.choice(sorted(self._ends))
        moment = rng.uniform(0, START_S) if rng.random() < 0.6 else START_S + rng.uniform(0, START_S / 2)
        print(f"  life {life}: {name} after {moment:.2f} s", flush=True)
        run = pipeline.start()
        self._wait(run, moment)
        assert run.alive, f"ended by itself before {name}:\n{run.output[-6000:]}"
        codes = self._ends[name](run)
        found = run.process.wait(400)
        assert found in codes, f"exit code {found} after {name}, not {codes}:\n{run.output[-6000:]}"
        if 0 in codes:
            assert "Traceback" not in run.output, run.output[-6000:]
        run.kill_all()

    def _wait(self, run: CdcRun, seconds: float) -> None:
        with suppress(Exception):
            run.process.wait(seconds)

    def _interrupt(self, run: CdcRun) -> tuple[int, ...]:
        os.killpg(run.process.pid, signal.SIGINT)
        return (0,)

    def _terminate_all(self, run: CdcRun) -> tuple[int, ...]:
        os.killpg(run.process.pid, signal.SIGTERM)
        return (0,)

    def _twice(self, run: CdcRun) -> tuple[int, ...]:
        run.process.send_signal(signal.SIGINT)
        self._wait(run, self._rng.uniform(0, 3))
        if run.alive:
            run.process.send_signal(signal.SIGTERM)
        return (0, ABORTED)

    def _send(self, run: CdcRun, number: signal.Signals, *codes: int) -> tuple[int, ...]:
        run.process.send_signal(number)
        return codes

    def _kill(self, run: CdcRun, word: str) -> tuple[int, ...]:
        for pid in run.processes(word):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._wait(run, 5)
        if run.alive:
            run.process.send_signal(signal.SIGTERM)
        return (0, 5)


if __name__ == "__main__":
    main()
