"""What test servers of Doris and StarRocks have in common: where they come from, SQL, answers of their HTTP ports."""

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
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import pymysql
import pytest

from cdc_standins import StandIn, start

_READY_S = 180
Server = TypeVar("Server", bound="LoadServer")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: `json` is None for a body that is none, `answer["Status"]` is a key of it."""

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
class LoadServer:
    """A server to test with. `standin` is there when it is ours: then faults and restarts are possible."""

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
            database=db, ssl_disabled=True,
        )  # fmt: skip
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def refused(self, sql: str, **login: str) -> str:
        """The message of the error that a statement must give."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.query(sql, **login)
        return str(caught.value.args[1])

    def new_database(self) -> str:
        """A database of a fresh name."""
        name = f"db_{uuid4().hex[:12]}"
        self.query(f"CREATE DATABASE {name}")
        return name

    def request(
        self, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None,
        login: tuple[str, str] | None,
    ) -> Answer:  # fmt: skip
        """One request to a port; redirects are not followed."""
        token = base64.b64encode(":".join(login or (self.user, self.password)).encode()).decode()
        connection = http.client.HTTPConnection(self.host, port, timeout=60)
        try:
            connection.request(method, path, body, {"Authorization": f"Basic {token}", **headers})
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), dict(response.getheaders()))
        finally:
            connection.close()

    def alive(self) -> bool:
        """Whether a back end is."""
        try:
            return any("true" in map(str, row) for row in self.query("SHOW BACKENDS"))
        except (pymysql.MySQLError, OSError):
            return False


@contextmanager
def shared(kind: type[Server], scheme: str, image: str) -> Iterator[Server]:
    """A server at the address in `CDC_TEST_<SCHEME>`, one in Docker when that says `docker`, else a stand-in."""
    variable = f"CDC_TEST_{scheme.upper()}"
    wanted = os.environ.get(variable, "")
    if wanted == "docker":
        with _in_docker(kind, image) as server:
            yield server
    elif wanted:
        yield _at(kind, scheme, variable, wanted)
    else:
        with own(kind, scheme) as server:
            yield server


@contextmanager
def own(kind: type[Server], scheme: str, **options: Any) -> Iterator[Server]:
    """A stand-in for one test, which may break it."""
    with (
        tempfile.TemporaryDirectory(prefix=f"{scheme}-") as folder,
        start(scheme, Path(folder) / "standin", **options) as standin,
    ):
        yield kind(
            standin.host, standin.http_port, standin.be_http_port, standin.sql_port, "root",
            str(options.get("root_password", "")), standin,
        )  # fmt: skip


def _at(kind: type[Server], scheme: str, variable: str, address: str) -> Server:
    parts = urlsplit(address)
    if parts.scheme != scheme or not parts.hostname:
        pytest.fail(f"{variable} must look like {scheme}://user:password@host:9030?http=8030", pytrace=False)
    ports = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
    return kind(
        parts.hostname, ports.get("http", 8030), ports.get("be_http", 8040), parts.port or 9030,
        unquote(parts.username or "root"), unquote(parts.password or ""),
    )  # fmt: skip


@contextmanager
def _in_docker(kind: type[Server], image: str) -> Iterator[Server]:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image)
    for port in (8030, 8040, 9030):  # loads are redirected to the port that the back end knows itself by
        container = container.with_bind_ports(port, port)
    with container:
        server = kind(container.get_container_host_ip(), 8030, 8040, 9030)
        deadline = time.monotonic() + _READY_S
        while not server.alive():
            if time.monotonic() > deadline:
                pytest.fail(f"{image} has no back end after {_READY_S} s", pytrace=False)
            time.sleep(1)
        yield server
