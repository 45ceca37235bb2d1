"""Where tests get a StarRocks from, in this order, and a plain client of its HTTP ports:

1. an address: `CDC_TEST_STARROCKS=starrocks://user:password@host:sql_port?http=8030&be_http=8040`;
2. Docker through testcontainers, when `CDC_TEST_STARROCKS=docker`: the image brings front end and back end in one;
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
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import pymysql
import pytest

from cdc.testing.standins import StandIn, start_starrocks

_IMAGE = "starrocks/allin1-ubuntu:3.5-latest"
_READY_S = 180


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: `json` is None for a body that is none."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    def __getitem__(self, name: str) -> Any:
        return self.json[name]


@dataclass(slots=True)
class StarRocksServer:
    """A StarRocks to test with. `standin` is there when it is ours: then faults and restarts are possible."""

    host: str
    http_port: int
    be_http_port: int
    sql_port: int
    user: str = "root"
    password: str = ""
    standin: StandIn | None = field(default=None, repr=False)

    def query(self, sql: str, *, user: str | None = None, password: str = "") -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        login = (self.user, self.password) if user is None else (user, password)
        connection = pymysql.connect(
            host=self.host, port=self.sql_port, user=login[0], password=login[1], autocommit=True, charset="utf8mb4"
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def new_database(self) -> str:
        """A database of a fresh name."""
        name = f"db_{uuid4().hex[:12]}"
        self.query(f"CREATE DATABASE {name}")
        return name

    def refused(self, sql: str, **login: str) -> str:
        """The message of the error that a statement must give."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.query(sql, **login)
        return str(caught.value.args[1])

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
        port: int | None = None, login: tuple[str, str] | None = None, follow: bool = True,
    ) -> Answer:  # fmt: skip
        """One request to the front end, or to `port`; redirects are followed, with the body sent only at the end."""
        where = port or self.http_port
        chosen = login or (self.user, self.password)
        token = base64.b64encode(":".join(chosen).encode()).decode()
        sent = {"Authorization": f"Basic {token}", "Expect": "100-continue", **(headers or {})}
        connection = http.client.HTTPConnection(self.host, where, timeout=60)
        try:
            connection.request(method, path, None if where == self.http_port else body, sent)
            response = connection.getresponse()
            answer = Answer(response.status, response.read().decode(), dict(response.getheaders()))
        finally:
            connection.close()
        if answer.status != 307 or not follow:
            return answer
        target = urlsplit(answer.headers["Location"])
        path = target.path + (f"?{target.query}" if target.query else "")
        return self.send(method, path, headers, body, port=target.port, login=login)

    def transaction(
        self, operation: str, database: str, label: str, table: str = "t", body: bytes = b"", **headers: str
    ) -> Answer:
        """A step of a transaction: begin, load, prepare, commit or rollback."""
        named = {name.replace("__", "-"): value for name, value in headers.items()}
        method = "PUT" if operation == "load" else "POST"
        where = {"db": database, "label": label, "table": table}
        return self.send(method, f"/api/transaction/{operation}", {**where, **named}, body)

    def load(self, database: str, body: bytes, table: str = "t", **headers: str) -> Answer:
        """A plain stream load."""
        return self.send("PUT", f"/api/{database}/{table}/_stream_load", headers, body)

    def state(self, database: str, label: str) -> str:
        """The state of a label."""
        return str(self.send("GET", f"/api/{database}/get_load_state?label={label}")["state"])


@contextmanager
def shared_starrocks() -> Iterator[StarRocksServer]:
    """A server that all tests of the session share: use `new_database`, never stop it, arm no faults."""
    wanted = os.environ.get("CDC_TEST_STARROCKS", "")
    if wanted == "docker":
        with _in_docker() as server:
            yield server
    elif wanted:
        yield _at(wanted)
    else:
        with own_starrocks() as server:
            yield server


@contextmanager
def own_starrocks(**options: Any) -> Iterator[StarRocksServer]:
    """A stand-in for one test, which may break it."""
    with (
        tempfile.TemporaryDirectory(prefix="starrocks-") as folder,
        start_starrocks(Path(folder) / "standin", **options) as standin,
    ):
        password = str(options.get("root_password", ""))
        yield StarRocksServer(
            standin.host, standin.http_port, standin.be_http_port, standin.sql_port, "root", password, standin
        )


def _at(address: str) -> StarRocksServer:
    parts = urlsplit(address)
    if parts.scheme != "starrocks" or not parts.hostname:
        pytest.fail("CDC_TEST_STARROCKS must look like starrocks://user:password@host:9030", pytrace=False)
    ports = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
    return StarRocksServer(
        parts.hostname, ports.get("http", 8030), ports.get("be_http", 8040), parts.port or 9030,
        unquote(parts.username or "root"), unquote(parts.password or ""),
    )  # fmt: skip


@contextmanager
def _in_docker() -> Iterator[StarRocksServer]:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(_IMAGE)
    for port in (8030, 8040, 9030):  # loads are redirected to the port that the back end knows itself by
        container = container.with_bind_ports(port, port)
    with container:
        server = StarRocksServer(container.get_container_host_ip(), 8030, 8040, 9030)
        deadline = time.monotonic() + _READY_S
        while not _alive(server):
            if time.monotonic() > deadline:
                pytest.fail(f"{_IMAGE} has no back end after {_READY_S} s", pytrace=False)
            time.sleep(1)
        yield server


def _alive(server: StarRocksServer) -> bool:
    try:
        return any("true" in map(str, row) for row in server.query("SHOW BACKENDS"))
    except (pymysql.MySQLError, OSError):
        return False
