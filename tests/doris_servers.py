"""Where tests get a Doris from, in this order, and a plain client of its HTTP ports:

1. an address: `CDC_TEST_DORIS=doris://user:password@host:sql_port?http=8030&be_http=8040`;
2. Docker through testcontainers, when `CDC_TEST_DORIS=docker`: the image brings front end and back end in one;
3. else the stand-in of `cdc.testing.standins`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from uuid import uuid4

import pymysql
import pytest

from cdc.testing.standins import StandIn, start_doris

_IMAGE = "apache/doris:doris-all-in-one-2.1.0"
_READY_S = 180
_VISIBLE_S = 60
ONE_REPLICA = "PROPERTIES ('replication_num' = '1')"
COMMA = {"column_separator": ","}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered; `answer["Status"]` is a key of its JSON."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def __getitem__(self, name: str) -> Any:
        return self.json[name]


@dataclass(slots=True)
class DorisServer:
    """A Doris to test with. `standin` is there when it is ours: then faults and restarts are possible."""

    host: str
    http_port: int
    be_http_port: int
    sql_port: int
    user: str = "root"
    password: str = ""
    standin: StandIn | None = field(default=None, repr=False)

    @property
    def own(self) -> StandIn:
        """The stand-in, for tests that need one."""
        assert self.standin is not None
        return self.standin

    def query(self, sql: str, *, user: str | None = None, password: str = "", db: str | None = None) -> list[Any]:
        """The rows of a statement."""
        login = (self.user, self.password) if user is None else (user, password)
        connection = pymysql.connect(
            host=self.host, port=self.sql_port, user=login[0], password=login[1], autocommit=True, charset="utf8mb4",
            database=db,
        )  # fmt: skip
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def eventually(self, sql: str, wanted: list[Any]) -> list[Any]:
        """The rows of a query, once they are these: publishing is asynchronous."""
        deadline = time.monotonic() + _VISIBLE_S
        while (rows := self.query(sql)) != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return rows

    def refused(self, sql: str, **login: str) -> str:
        """The message of the error that a statement must give."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.query(sql, **login)
        return str(caught.value.args[1])

    def errno(self, sql: str, **login: str) -> int:
        """The number of the error that a statement must give."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.query(sql, **login)
        return int(caught.value.args[0])

    def new_database(self) -> str:
        """A database of a fresh name."""
        name = f"db_{uuid4().hex[:12]}"
        self.query(f"CREATE DATABASE {name}")
        return name

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, *,
        port: int | None = None, login: tuple[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """One request to the back end, or to `port`; redirects are not followed."""
        chosen = login or (self.user, self.password)
        token = base64.b64encode(":".join(chosen).encode()).decode()
        sent = {"Authorization": f"Basic {token}", **(headers or {})}
        connection = http.client.HTTPConnection(self.host, port or self.be_http_port, timeout=60)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), dict(response.getheaders()))
        finally:
            connection.close()

    def load(
        self, db: str, body: bytes, label: str = "", table: str = "t", *, login: tuple[str, str] | None = None,
        **headers: str,
    ) -> Answer:  # fmt: skip
        """A stream load straight to the back end; a label of its own when none is given."""
        named = {"label": label or uuid4().hex, **COMMA, **headers}
        return self.send("PUT", f"/api/{db}/{table}/_stream_load", named, body, login=login)

    def prepare(self, db: str, body: bytes, label: str, table: str = "t", **headers: str) -> Answer:
        """A stream load that ends precommitted."""
        return self.load(db, body, label, table, two_phase_commit="true", **headers)

    def settle(self, db: str, operation: str, **headers: Any) -> Answer:
        """The second phase: `settle(db, "commit", txn_id=5)`, `settle(db, "abort", label="a")`."""
        named = {name: str(value) for name, value in headers.items()}
        return self.send("PUT", f"/api/{db}/_stream_load_2pc", {"txn_operation": operation, **named}, b"")

    def state(self, db: str, label: str) -> str:
        """The state of a label."""
        path = f"/api/{db}/get_load_state?label={quote(label)}"
        return str(self.send("GET", path, port=self.http_port)["data"])


@contextmanager
def shared_doris() -> Iterator[DorisServer]:
    """A server that all tests of the session share: use `new_database`, never stop it, arm no faults."""
    wanted = os.environ.get("CDC_TEST_DORIS", "")
    if wanted == "docker":
        with _in_docker() as server:
            yield server
    elif wanted:
        yield _at(wanted)
    else:
        with own_doris() as server:
            yield server


@contextmanager
def own_doris(**options: Any) -> Iterator[DorisServer]:
    """A stand-in for one test, which may break it."""
    with (
        tempfile.TemporaryDirectory(prefix="doris-") as folder,
        start_doris(Path(folder) / "standin", **options) as standin,
    ):
        password = str(options.get("root_password", ""))
        yield DorisServer(
            standin.host, standin.http_port, standin.be_http_port, standin.sql_port, "root", password, standin
        )


def _at(address: str) -> DorisServer:
    parts = urlsplit(address)
    if parts.scheme != "doris" or not parts.hostname:
        pytest.fail("CDC_TEST_DORIS must look like doris://user:password@host:9030?http=8030", pytrace=False)
    ports = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
    return DorisServer(
        parts.hostname, ports.get("http", 8030), ports.get("be_http", 8040), parts.port or 9030,
        unquote(parts.username or "root"), unquote(parts.password or ""),
    )  # fmt: skip


@contextmanager
def _in_docker() -> Iterator[DorisServer]:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(_IMAGE)
    for port in (8030, 8040, 9030):  # loads are redirected to the port that the back end knows itself by
        container = container.with_bind_ports(port, port)
    with container:
        server = DorisServer(container.get_container_host_ip(), 8030, 8040, 9030)
        deadline = time.monotonic() + _READY_S
        while not _alive(server):
            if time.monotonic() > deadline:
                pytest.fail(f"{_IMAGE} has no back end after {_READY_S} s", pytrace=False)
            time.sleep(1)
        yield server


def _alive(server: DorisServer) -> bool:
    try:
        return any("true" in map(str, row) for row in server.query("SHOW BACKENDS"))
    except (pymysql.MySQLError, OSError):
        return False
