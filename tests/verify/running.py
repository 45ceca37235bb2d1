"""A pipeline file with a live MySQL and DuckDB, run in this process to what the log holds now, and compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from cdc.errors import SourceError
from cdc.job.state_location import default_state_dir
from cdc.offsets import numbered, source_offset
from cdc.source import Context
from cdc.spec.check import check_file
from cdc.spec.compiled import compile_spec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.testing.local_pipeline import LocalPipeline
from cdc.verify.report import TableReport, Verification
from cdc.verify.run import verify
from cdc.verify.table_verifier import VerifySettings
from cdc_services.server import MySqlServer

SOURCE = """source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: "{password}"
  tables: {database}.\\.*
sink:
  type: duckdb
  path: mirror.duckdb
"""


class ShortPipeline:
    """The pipeline `shop.yaml` of a folder, over one database of a server."""

    def __init__(self, server: MySqlServer, folder: Path, database: str, more: str = "") -> None:
        self.server, self.folder, self.database = server, folder, database
        self.file = folder / "shop.yaml"
        text = SOURCE.format(
            host=server.host, port=server.port, user=server.user, password=server.password, database=database
        )
        self.file.write_text(text + more)

    @property
    def spec(self) -> Any:
        return check_file(str(self.file)).spec

    @property
    def state(self) -> StateDir:
        return StateDir(default_state_dir(self.spec))

    def run(self, stop: threading.Event | None = None) -> None:
        """Run until everything that the log holds now is in the sink, or until `stop`."""
        spec, state = self.spec, self.state
        pipeline = state.open(name=spec.name, source=spec.source.type)
        source = spec.source.build(Context(pipeline, state.source))
        sink = spec.sink.build(Context(pipeline, state.sink))
        last = CommitLog(state.commits).last()
        decision = CommitLog(state.commits).get(last) if last >= 0 else None
        begun = state.initial_offset()
        if decision is not None:
            at = source_offset(decision.end)
        else:
            at = source.initial_offset() if begun is None else source_offset(begun)
        if stop is None:
            source.stop_at_current()
        middle = compile_spec(spec)
        local = LocalPipeline(source, sink, state.root, numbered(at, 0), lambda: sink, middle, name=spec.source.type)
        batch = last + 1
        try:
            while stop is None or not stop.is_set():
                try:
                    end = local.latest(at, batch, wait_s=0.1)
                except SourceError:
                    if not local.has_requests:
                        raise
                    end = at  # as a run does: what is asked for may be what lets it go on
                if end == at and stop is None and not local.has_requests:
                    break
                if end != at or local.has_requests:
                    local.batch(numbered(at, batch), numbered(end, batch + 1), 1)
                    at, batch = end, batch + 1
        finally:
            local.wait()
            source.stop()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """The pipeline runs in a thread until the block ends."""
        stop, errors = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                self.run(stop)
            except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        for error in errors:
            raise error

    def verify(self, **settings: Any) -> Verification:
        """What `cdc verify` finds."""
        return verify(self.spec, None, VerifySettings(**settings), lambda report: None)

    def report(self, table: str = "", **settings: Any) -> TableReport:
        """The same of one sink table, or of the only one."""
        found = self.verify(**settings).tables
        return next(each for each in found if not table or each.table.endswith(f".{table}"))

    def source(self, *statements: str) -> None:
        """Run statements on the source."""
        self.server.execute(*statements, database=self.database)

    def sink(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Run statements on the sink's file, behind the pipeline's back; the rows of the last one."""
        rows: Sequence[tuple[Any, ...]] = ()
        connection = duckdb.connect(str(self.folder / "mirror.duckdb"))
        try:
            connection.execute(f'USE mirror."{self.database}"')
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        finally:
            connection.close()
        return rows
