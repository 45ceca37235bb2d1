"""Pipelines from a live server into the stand-ins of Doris and StarRocks: run as users run them, and looked into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
import yaml
from cdc_process import Pipeline
from load_servers import LoadServer, own

from cdc_standins import StandIn

KINDS = ("doris", "starrocks")
_FINISHED_S = 300.0


@contextmanager
def own_standin(kind: str) -> Iterator[StandIn]:
    """A stand-in of one's own."""
    with own(LoadServer, kind) as server:
        yield server.own


def sink_of(standin: StandIn, **more: Any) -> dict[str, Any]:
    """The sink of a pipeline file; `more` by the names of the file."""
    jdbc = f"jdbc:mysql://{standin.host}:{standin.sql_port}"
    address = {"doris": "fenodes", "starrocks": "load-url"}[standin.kind]
    return {
        "type": standin.kind, "username": "root", "password": "", address: standin.fe, "jdbc-url": jdbc,
        "table.create.properties.replication_num": "1", **more,
    }  # fmt: skip


@dataclass
class LoadPipeline(Pipeline):
    """A pipeline into a stand-in, which has to be set."""

    standin: StandIn | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def server(self) -> StandIn:
        """The stand-in."""
        assert self.standin is not None
        return self.standin

    def write(self) -> None:
        """The pipeline file."""
        document = {
            "source": self.source,
            "sink": sink_of(self.server, **self.options),
            "pipeline": {"name": "proof", "schema.change.behavior": "evolve", **self.settings},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows from the stand-in, once all that is committed is visible."""
        finished(self.server)
        return self.server.query(sql)

    def holds(self, sql: str) -> bool:
        """Whether a query gives a first value that is true; a missing table is no."""
        with suppress(pymysql.MySQLError):
            rows = self.server.query(sql)
            return bool(rows and rows[0][0])
        return False


def finished(standin: StandIn) -> list[str]:
    """The states of all loads, once none is committed and not yet visible."""
    deadline = time.monotonic() + _FINISHED_S
    while True:
        states = [str(load["state"]) for load in standin.transactions()]
        if "COMMITTED" not in states:
            return states
        assert time.monotonic() < deadline, "a committed load does not become visible"
        time.sleep(0.02)
