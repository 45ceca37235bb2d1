"""Debezium itself between a real MySQL and the Kafka source: random rows of every type and ALTERs, then a comparison.

    PYTHONPATH=tests:tests/crash:tests/differential:tests/devservers .venv/bin/python tests/crash/live_debezium.py \
        --connect ~/.cache/test-services/kafka-connect-4.3.1 [--seed 7] [--steps 200] [--only schema,flat]

`--connect` is a folder with Kafka Connect's jars in `libs` and the MySQL connector's in `plugins/debezium-mysql`. One
connector each writes what another set of its options makes; each is read into a DuckDB file that has to equal the
server. What the connector loses is left out of the workload (docs/kafka-source.md, Types).
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import comparison
import workload
from cdc_process import Pipeline
from column_kinds import Kind
from confluent_kafka import Consumer, TopicPartition
from direct import DirectRuns
from servers import own_servers
from workload import Workload

from cdc.source import Limits
from cdc_services.kafka.broker import StartedBroker
from cdc_services.kafka.install import KafkaInstallation, find
from cdc_services.process import ServerProcess, free_port
from cdc_services.server import MySqlServer

_LIMITS = Limits(max_bytes=1 << 22, max_rows=5000)
_WAIT_S = 120.0
_MARK = "mark"
_UNSIGNED = {"bigint.unsigned.handling.mode": "precise"}
_BARE = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}


@dataclass(frozen=True)
class Variant:
    """A connector's options, and those of the source that reads what it writes.

    Attributes:
        lost: words of declarations of types that the messages do not hold.
        declared: the source is told every column's type, so no column may change it.
    """

    connector: dict[str, str] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    declared: bool = False
    partitions: int = 1


VARIANTS = {
    "schema": Variant(_UNSIGNED),
    "partitions": Variant(_UNSIGNED, partitions=3),
    "options": Variant(
        {
            "decimal.handling.mode": "string", "time.precision.mode": "isostring",
            **_UNSIGNED, "tombstones.on.delete": "false", "column.propagate.source.type": ".*",
        },
    ),
    "connect": Variant(
        {**_UNSIGNED, "time.precision.mode": "connect"}, lost=("TIME(", "DATETIME("),
    ),
    "bare": Variant(_BARE, lost=("BIT(", "VECTOR("), declared=True),
    "bare-options": Variant(
        {
            **_BARE, "decimal.handling.mode": "string", "binary.handling.mode": "hex",
            "time.precision.mode": "microseconds",
        },
        {
            "debezium.decimal.handling.mode": "string", "debezium.binary.handling.mode": "hex",
            "debezium.time.precision.mode": "microseconds",
        },
        lost=("BIT(", "VECTOR("),
        declared=True,
    ),
}  # fmt: skip


def _add_column(work: Workload) -> None:
    """One that rows already there have as NULL: messages do not tell what they got. A row tells of it."""
    table = work.table()
    column = workload.Column(work.name("c"), work.rng.choice(work.kinds))
    if work.sql(f"ALTER TABLE {table.sql} ADD COLUMN {column.sql}"):
        table.columns.append(column)


STEPS = [
    (workload._rows, 60), (workload._transaction, 20), (workload._drop_column, 4), (workload._rename_column, 4),
    (workload._widen_column, 4), (workload._several_clauses, 3), (workload._rename_table, 3), (_add_column, 4),
]  # fmt: skip


def kinds(work: Workload, lost: tuple[str, ...]) -> list[Kind]:
    """The types whose values Debezium's messages hold."""
    found = []
    for kind in work.kinds:
        if any(word in kind.declaration for word in ("JSON", "FLOAT", *lost)):
            continue
        if kind.declaration == "YEAR":
            kind = replace(kind, literal=lambda rng: str(rng.randint(1901, 2155)))
        if kind.declaration.startswith(("DATE", "TIMESTAMP")):
            kind = replace(kind, literal=lambda rng, own=kind.literal: _valid(rng, own))
        found.append(kind)
    return found


def _valid(rng: Random, own: Any) -> str:
    """A date that there is."""
    while True:
        text = own(rng)
        if text.startswith("'") and "-00" not in text and "0000" not in text and int(text[9:11]) <= 28:
            return str(text)
        if not text.startswith("'"):
            return "'2026-11-23'" if "-" not in text else str(text)


class Connect:
    """Kafka Connect, in one process."""

    def __init__(self, jars: Path, folder: Path, broker: StartedBroker, installation: KafkaInstallation) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        settings = {
            "bootstrap.servers": broker.bootstrap, "offset.storage.file.filename": folder / "offsets",
            "offset.flush.interval.ms": 1000, "listeners": self._url, "plugin.path": jars / "plugins",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter", "topic.creation.enable": "true",
            "connector.client.config.override.policy": "All", "plugin.discovery": "hybrid_warn",
        }  # fmt: skip
        file = folder / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        command = replace(installation, libs=jars / "libs").command(
            "org.apache.kafka.connect.cli.ConnectStandalone", str(file), heap="900m"
        )
        self.log = folder / "connect.log"
        self._process = ServerProcess(command, self.log)
        self._until(lambda: self._ask("/connectors") is not None, "Connect does not answer")

    def create(self, name: str, config: dict[str, str]) -> None:
        """Start a connector, and wait until its task runs."""
        self._ask("/connectors", {"name": name, "config": config})
        self._until(lambda: self._runs(name), f"{name} does not run")

    def _runs(self, name: str) -> bool:
        found = self._ask(f"/connectors/{name}/status") or {}
        states = [task["state"] for task in found.get("tasks", [])]
        if "FAILED" in states:
            raise SystemExit(f"{name}: {found['tasks'][0].get('trace', '')[:2000]}")
        return states == ["RUNNING"]

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if body is not None:
                raise SystemExit(f"{path}: {error.read().decode()[:2000]}") from error
            return None
        except OSError:
            return None

    def check(self, names: list[str]) -> None:
        """Raise SystemExit when a connector has failed."""
        for name in names:
            self._runs(name)

    def _until(self, done: Any, what: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not done():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}; see {self.log}")
            time.sleep(0.2)

    def close(self) -> None:
        """End it."""
        self._process.end(signal.SIGKILL)


def config(prefix: str, variant: Variant, server: MySqlServer, databases: list[str], broker: StartedBroker, number: int
) -> dict[str, str]:  # fmt: skip
    """A connector's configuration. Its schema changes have one partition."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector", "tasks.max": "1",
        "database.hostname": server.host, "database.port": str(server.port), "database.user": server.user,
        "database.password": server.password, "database.server.id": str(7100 + number), "topic.prefix": prefix,
        "database.include.list": ",".join([*databases, _MARK]), "driver.allowPublicKeyRetrieval": "true",
        "schema.history.internal.kafka.bootstrap.servers": broker.bootstrap, "poll.interval.ms": "50",
        "schema.history.internal.kafka.topic": f"{prefix}-history", "database.connectionTimeZone": "UTC",
        "topic.creation.default.partitions": str(variant.partitions), "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "lead", "topic.creation.lead.include": prefix,
        "topic.creation.lead.partitions": "1", "topic.creation.lead.replication.factor": "1",
        **variant.connector,
    }  # fmt: skip


class Trial:
    """One server, one broker, one Connect; a connector and a pipeline for each variant."""

    def __init__(self, names: list[str], connect: Path, seed: int, steps: int, folder: Path) -> None:
        self._names, self._jars, self._seed, self._steps, self._folder = names, connect, seed, steps, folder

    def run(self) -> list[str]:
        """What is not equal."""
        installation = find()
        assert installation is not None, "no Kafka broker: `make services` brings one"
        with own_servers() as make:
            server = make("mysql")
            broker = StartedBroker(installation, {"auto.create.topics.enable": "true"})
            connect = Connect(self._jars, self._folder, broker, installation)
            try:
                return self._compared(server, broker, connect)
            finally:
                connect.close()
                broker.close()

    def _compared(self, server: MySqlServer, broker: StartedBroker, connect: Connect) -> list[str]:
        variants = {name: VARIANTS[name] for name in self._names}
        lost = tuple(sorted({word for variant in variants.values() for word in variant.lost}))
        work = Workload(server, [server.new_database("d"), server.new_database("e")], self._seed)
        work.kinds = kinds(work, lost)
        work.connect()
        server.execute(f"CREATE DATABASE {_MARK}", f"CREATE TABLE {_MARK}.done (id INT PRIMARY KEY)")
        keyed_only = any(variant.partitions > 1 for name, variant in variants.items())
        integer = work.kind("INT UNSIGNED")
        for part in range(3):
            work.create(work.kinds[part::3], (integer,))
            if not keyed_only:
                work.create(work.kinds[part::3], ())
        for kind in [kind for kind in work.kinds if kind.key][:: 3 if self._steps > 100 else 8]:
            work.create(work.rng.sample(work.kinds, 3), (kind,))
        for table in work.tables * 3:
            work.insert(table)
        pipelines = {}
        for number, (name, variant) in enumerate(variants.items()):
            connect.create(name, config(name, variant, server, work.databases, broker, number))
            source = {
                "type": "kafka", "properties.bootstrap.servers": broker.bootstrap,
                "topic-pattern": rf"{name}(\.[de]_.*)?", **variant.source,
            }  # fmt: skip
            if variant.declared:
                source["columns"] = declared(server, work.databases)
            pipelines[name] = Pipeline(self._folder / name, source)
        plain = any(variant.declared for name, variant in variants.items())
        before, workload._STEPS = workload._STEPS, STEPS[:2] if plain else STEPS  # type: ignore[assignment]
        try:
            for half in (1, 2):
                self._settle(server, broker, connect, half)
                for name, pipeline in pipelines.items():
                    self._catch_up(name, pipeline)
                if half == 1:
                    work.steps(self._steps)
            connect.check(self._names)
        finally:
            workload._STEPS = before
            (self._folder / "workload.sql").write_text("\n".join(work.log), encoding="utf-8")
            work.close()
        found = []
        for name, pipeline in pipelines.items():
            found += [f"{name}: {line}" for line in _differences(server, pipeline, work.databases)]
        return found

    def _catch_up(self, name: str, pipeline: Pipeline) -> None:
        done = DirectRuns(pipeline).catch_up(_LIMITS)
        changes = dict(Counter(type(change).__name__ for change in done.changes))
        rows = f"{done.inserts} inserts, {done.updates} updates, {done.deletes} deletes"
        print(f"{name}: {done.batches} batches, {rows}, {changes}, {dict(done.reasons)}", flush=True)

    def _settle(self, server: MySqlServer, broker: StartedBroker, connect: Connect, number: int) -> None:
        """Wait until every connector has written what is in the log now."""
        server.execute(f"INSERT INTO {_MARK}.done VALUES ({number})")
        asker = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "asker"})
        deadline = time.monotonic() + _WAIT_S

        def ends() -> dict[tuple[str, int], int]:
            topics = asker.list_topics(timeout=30).topics
            parts = [
                (name, part) for name, about in topics.items() for part in about.partitions
                if name.split(".")[0] in self._names
            ]  # fmt: skip
            return {part: asker.get_watermark_offsets(TopicPartition(*part), timeout=30)[1] for part in parts}

        before: Any = None
        while True:
            now = ends()
            marks = {
                name: sum(end for (topic, _), end in now.items() if topic == f"{name}.{_MARK}.done")
                for name in self._names
            }
            if all(count >= number for count in marks.values()) and now == before:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"the connectors do not write: {marks}")
            connect.check(self._names)
            before = now
            time.sleep(1.5)
        asker.close()


def _differences(server: MySqlServer, pipeline: Pipeline, databases: list[str]) -> Iterator[str]:
    """As `comparison.differences`; a column of another kind in the sink is one."""
    try:
        yield from comparison.differences(server, pipeline, databases)
    except TypeError as error:
        columns = pipeline.query("SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns()")
        there = comparison.source_columns(server, databases)
        own = {
            (database, table, column): kind
            for (database, table), kinds in there.items()
            for column, kind in kinds.items()
        }
        yield f"{error}: {[(*column, own.get(column[:3])) for column in columns if column[3] == 'VARCHAR']}"


def declared(server: MySqlServer, databases: list[str]) -> dict[str, dict[str, str]]:
    """Every column's type as the MySQL source would have it."""
    from connectors.kafka.formats.canal import field_of

    names = ", ".join(f"'{database}'" for database in databases)
    found: dict[str, dict[str, str]] = {}
    for database, table, column, kind in server.execute(
        "SELECT table_schema, table_name, column_name, column_type FROM information_schema.columns "
        f"WHERE table_schema IN ({names}) ORDER BY 1, 2, ordinal_position"
    ):
        text = kind.decode() if isinstance(kind, bytes) else kind
        found.setdefault(f"{database}.{table}", {})[column] = str(field_of(column, text, "UTC").type)
    return found


def run(
    connect: Path, seed: int, steps: int = 200, names: str = ",".join(VARIANTS), folder: Path | None = None
) -> None:
    """One trial. Raises SystemExit with exit code 1 when something differs."""
    print(f"Debezium, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="cdc-debezium-") as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        # Declared types cannot change: those connectors get no ALTER, and a workload of their own.
        for declared in (False, True):
            found = [name for name in names.split(",") if VARIANTS[name].declared == declared]
            if found:
                _run(found, connect, seed, steps, place / ("declared" if declared else "told"))


def _run(names: list[str], connect: Path, seed: int, steps: int, folder: Path) -> None:
    folder.mkdir()
    lines = Trial(names, connect, seed, steps, folder).run()
    for line in lines:
        print(line, flush=True)
    if lines:
        raise SystemExit(1)
    print(f"{', '.join(names)}: every table equals the server's", flush=True)


def main() -> None:
    """Run one; exit code 1 when something differs."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--connect", type=Path, required=True)
    given.add_argument("--seed", type=int, default=7)
    given.add_argument("--steps", type=int, default=200)
    given.add_argument("--only", default=",".join(VARIANTS), help="names of variants, separated by commas")
    given.add_argument("--folder", type=Path, help="keep everything here")
    options = given.parse_args()
    run(options.connect, options.seed, options.steps, options.only, options.folder)


if __name__ == "__main__":
    main()
