"""A `cdc run` of the measurements: its files, and what Spark's checkpoint and the log lines say about each batch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spend import Contained, Spent
from workload import DATABASE, LogEnd

from cdc_services.server import StartedServer

Sink = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One sink, or a list of them; None for a DuckDB file."""
Middle = Mapping[str, Any] | None
"""`transform` and `route` of a pipeline file; a rule may name `op_ts`."""
CDC = str(Path(sys.executable).with_name("cdc"))
_KEEP_ALL = "spark.sql.streaming.minBatchesToRetain=1000000"
_FILE = """\
source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: ${{BENCH_PASSWORD}}
  tables: {tables}
  tls.mode: disabled
  allow-public-key-retrieval: true
{startup}
sink:
{sink}
pipeline:
  name: bench
  schema.change.behavior: evolve
{middle}
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: when it was planned (Spark's offset log) and when it was visible, seconds since the epoch."""

    number: int
    rows: int
    planned: float
    done: float
    run_s: float


class Pipeline:
    """One pipeline file with its state directory and DuckDB file, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        server: StartedServer,
        tables: str,
        start: LogEnd | None,
        sink: Sink = None,
        middle: Middle = None,
    ) -> None:
        """Begins at a place in the log, or with a snapshot when there is none. The sink is DuckDB, or what it says."""
        self.folder, self._server = folder, server
        self.state, self.duckdb = folder / "state", folder / "sink.duckdb"
        self.file = folder / "bench.yaml"
        folder.mkdir(parents=True)
        between = "\n".join(f"{key}: {json.dumps(value)}" for key, value in (middle or {}).items())
        metadata = {"metadata.list": "op_ts"} if middle else {}
        self.file.write_text(
            _FILE.format(
                host=server.host, port=server.port, user=server.user, tables=f"{DATABASE}.{tables}", middle=between,
                startup=_block(_startup(start) | metadata),
                sink=_block(sink or {"type": "duckdb", "path": str(self.duckdb)}),
            )
        )  # fmt: skip
        self._runs = 0
        self._run_folder = folder

    def start(self, *options: str, sample: bool = False, spark: Mapping[str, str] | None = None) -> Contained:
        """Start `cdc run`; the state directory goes on where the last run ended."""
        self._runs += 1
        self._run_folder = self.folder / f"run-{self._runs}"
        settings = [_KEEP_ALL, *(f"{key}={value}" for key, value in (spark or {}).items())]
        environ = {"BENCH_PASSWORD": self._server.password, "CDC_SPARK_CONF": ";".join(settings)}
        command = [CDC, "run", str(self.file), "--state-dir", str(self.state), "--log-format", "json", *options]
        return Contained(command, self._run_folder, environ=environ, sample=sample, known=[self._server.pid or 0])

    def catch_up(self, *, sample: bool = False) -> Spent:
        """Run until everything in the log is in DuckDB. Raises RuntimeError when the run fails."""
        running = self.start("--until-caught-up", sample=sample)
        return checked(running, running.wait())

    def batches(self) -> list[Batch]:
        """The batches of the last run that had rows or schema changes, oldest first."""
        found = []
        for line in (self._run_folder / "stderr").read_text().splitlines():
            fields = parsed(line)
            if fields.get("message") == "batch committed":
                number = fields["batch"]
                planned, done = self._planned(number), fields["committed_s"]
                found.append(Batch(number, fields["rows"], planned, done, fields["duration_s"]))
        return found

    def wait_for_rows(self, rows: int, running: Contained, timeout_s: float = 600) -> None:
        """Wait until this run has committed that many rows. Raises RuntimeError when it ends or takes too long."""
        deadline = time.monotonic() + timeout_s
        while sum(batch.rows for batch in self._lines()) < rows:
            if not running.running or time.monotonic() > deadline:
                raise RuntimeError(f"cdc run did not get to {rows} rows: {running.words()}")
            time.sleep(0.2)

    def count(self, table: str) -> int:
        """Rows of a table in DuckDB."""
        import duckdb

        with duckdb.connect(str(self.duckdb), read_only=True) as connection:
            row = connection.execute(f"SELECT count(*) FROM {DATABASE}.{table}").fetchone()
        return int(row[0]) if row else 0

    def _lines(self) -> list[Batch]:
        fields = [parsed(line) for line in (self._run_folder / "stderr").read_text().splitlines()]
        return [
            Batch(line["batch"], line["rows"], 0, 0, line["duration_s"])
            for line in fields
            if line.get("message") == "batch committed"
        ]

    def _planned(self, batch: int) -> float:
        return (self.state / "checkpoint" / "offsets" / str(batch)).stat().st_mtime


def _startup(start: LogEnd | None) -> dict[str, Any]:
    if start is None:
        return {"scan.startup.mode": "initial"}
    prefix = "scan.startup.specific-offset"
    return {"scan.startup.mode": "specific-offset", f"{prefix}.file": start.file, f"{prefix}.pos": start.position}


def _block(fields: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(fields, Sequence):
        return "\n".join(f"- {json.dumps(each)}" for each in fields)
    return "\n".join(f"  {key}: {json.dumps(value)}" for key, value in fields.items())


def checked(running: Contained, spent: Spent) -> Spent:
    """The cost of a run that ended well. Raises RuntimeError with its last words otherwise."""
    if spent.code:
        raise RuntimeError(f"cdc run ended with {spent.code}: {running.words()}")
    return spent


def parsed(line: str) -> dict[str, Any]:
    """The fields of a line of JSON; none for other lines."""
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
