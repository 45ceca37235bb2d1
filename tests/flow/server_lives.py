"""Random lives of tables (`test_random_lives`) with a server as the sink, which is killed within commits and started.

The tool dies at the steps of a batch as in every such life.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

import mysql_sink_harness
import search_harness
from servers import SINK_SERVER, own_oceanbase, own_search, own_servers
from test_random_lives import Life

from cdc.flow import derive
from cdc.process import faults
from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from connectors.elasticsearch.sink import ElasticsearchSink
from connectors.mysql.sink.sink import MySqlSink

KINDS = ("opensearch", "elasticsearch", "mysql", "mariadb", "oceanbase")
_OPTIONS = {"retry-timeout": "120s"}

_STARTER = ThreadPoolExecutor(1)
"""The thread that starts servers again: a server dies with the thread that started it, a batch's threads are short."""


class Killed(Protocol):
    """A server that dies and comes again with the same data."""

    def kill9(self) -> None: ...

    def start(self) -> None: ...


class _DocumentsLife(ElasticsearchSink):
    """The sink with a look at its indexes."""

    harness: search_harness.Harness

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        found = self.harness.server.ask("GET", "/_cat/aliases?format=json&h=alias")
        return {TableId.parse(row["alias"]) for row in found if not row["alias"].startswith(".")}


class _DatabaseLife(MySqlSink):
    """The sink with a look at its tables."""

    harness: mysql_sink_harness.Harness

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        with self._server.session() as session:
            names = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
            return {TableId(str(database), str(table)) for database, table in session.rows(names)}


@contextmanager
def server_of(kind: str) -> Iterator[Any]:
    """A server of a kind whose commits survive a crash."""
    if kind in ("opensearch", "elasticsearch"):
        with own_search(kind) as server:
            yield server
    elif kind == "oceanbase":
        with own_oceanbase() as server:
            yield server
    else:
        with own_servers() as make:
            yield make(kind, SINK_SERVER)


def live(server: Any, kind: str, seed: int, folder: Path, *, kills: float = 0.0) -> None:
    """One life; the server dies in this share of commits.

    Raises AssertionError with the seed when the server does not end with the rows of the source.
    """
    sink = _sink(server, kind, seed, folder)
    life = Life(seed, folder / "state", sink)
    with patch.object(derive.log, "warning", life.notice), _killing(server, Random(seed), kills):
        life.run()


def _sink(server: Any, kind: str, seed: int, folder: Path) -> _DocumentsLife | _DatabaseLife:
    pipeline = f"life-{seed}"
    if kind in ("opensearch", "elasticsearch"):
        documents = search_harness.Harness(server, folder / "sink", pipeline, _OPTIONS)
        documents.clear()
        context = Context(pipeline, LocalStore(documents.state))
        found = _DocumentsLife(search_harness.sink_options(server, **_OPTIONS), context)
        found.harness = documents
        return found
    rows = mysql_sink_harness.Harness(server, folder / "sink", pipeline, _OPTIONS)
    for database in ("shop", "ods"):
        server.execute(f"DROP DATABASE IF EXISTS {database}")
    context = Context(pipeline, LocalStore(rows.state))
    database_life = _DatabaseLife(mysql_sink_harness.sink_options(server, **_OPTIONS), context)
    database_life.harness = rows
    return database_life


@contextmanager
def _killing(server: Killed, chance: Random, share: float) -> Iterator[None]:
    def hook(point: str, _: int) -> None:
        if before is not None:
            before(point, _)
        if point == "mid-commit" and chance.random() < share:
            server.kill9()
            _STARTER.submit(server.start).result()

    before, faults.hook = faults.hook, hook
    try:
        yield
    finally:
        faults.hook = before
