"""Where tests get a real MySQL or MariaDB server from, in this order:

1. an address: `CDC_TEST_MYSQL_URL`, `CDC_TEST_MARIADB_URL` = `mysql://user:password@host:port` (shared servers only);
2. Docker through testcontainers, when a daemon answers (shared servers only);
3. a program on this machine: what `make services` installed, for MariaDB also the system's own;
4. else the test is skipped with the reason - or fails, when `CDC_REQUIRE_SERVICES=mysql,mariadb` names the flavor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from cdc_services import oceanbase
from cdc_services.installation import find
from cdc_services.search import install as search
from cdc_services.search.server import SearchServer
from cdc_services.server import MySqlServer, StartedServer

FLAVORS = ("mysql", "mariadb")
SINK_SERVER = ("--local-infile=ON", "--innodb-flush-log-at-trx-commit=1", "--skip-log-bin")
"""Options of a server that sinks write to."""
ServerFactory = Callable[..., StartedServer]
_IMAGES = {"mysql": "mysql:9", "mariadb": "mariadb:11"}
_NO_SERVER = (
    "no {flavor} server: set CDC_TEST_{upper}_URL=mysql://user:password@host:port, or start Docker, "
    "or run `make services`"
)


@contextmanager
def shared_server(flavor: str) -> Iterator[MySqlServer]:
    """A server that all tests of the session share: use `new_database`, never change its global settings."""
    with ExitStack() as stack:
        server = _from_environment(flavor) or _from_docker(flavor, stack) or _from_binary(flavor, stack)
        if server is None:
            missing(flavor)
        if flavor == "mariadb":
            _begin_files(server)
        yield server


def _begin_files(server: MySqlServer) -> None:
    """Begin a log file with each new database. MariaDB finds the place of a GTID by reading its file from the start:
    what other tests have written before would be read at each start of a pipeline."""
    new_database = server.new_database

    def in_a_new_file(prefix: str = "t") -> str:
        server.execute("FLUSH BINARY LOGS")
        return new_database(prefix)

    server.new_database = in_a_new_file  # type: ignore[method-assign]


def source_of(server: MySqlServer, tables: str, /, **given: Any) -> dict[str, Any]:
    """The source of a pipeline file that reads these tables, without TLS; `given` by the names of the file."""
    return {
        "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
        "password": server.password, "tables": tables, "tls.mode": "disabled",
            "allow-public-key-retrieval": True, **given,
    }  # fmt: skip


left_out = False
"""Whether this run has no tests that need a server."""


@contextmanager
def own_servers() -> Iterator[ServerFactory]:
    """A function that starts servers for one test: `server_factory("mysql", extra_args=["--gtid-mode=OFF"])`."""
    with ExitStack() as stack:

        def make(flavor: str, extra_args: tuple[str, ...] | list[str] = ()) -> StartedServer:
            assert not left_out, "a test that starts a server has the mark mysql"
            return _from_binary(flavor, stack, tuple(extra_args)) or missing(flavor)

        yield make


@contextmanager
def own_search(name: str) -> Iterator[SearchServer]:
    """A search server, `opensearch` or `elasticsearch`; skipped, or failed where it is required, when not installed."""
    installation = search.find(name)
    if installation is None:
        missing(name)
    server = SearchServer(installation)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def own_oceanbase() -> Iterator[MySqlServer]:
    """A server of the OceanBase engine; skipped, or failed where it is required, without its package."""
    if oceanbase.find() is None:
        missing("oceanbase")
    server = oceanbase.OceanBaseServer()
    try:
        yield server
    finally:
        server.close()


def missing(service: str, reason: str = "") -> NoReturn:
    """Skip, or fail where this service is required. Never returns. `reason`: else that there is no such server."""
    reason = reason or _NO_SERVER.format(flavor=service, upper=service.upper())
    if service in os.environ.get("CDC_REQUIRE_SERVICES", "").replace(" ", "").split(","):
        pytest.fail(f"{reason} (CDC_REQUIRE_SERVICES asks for it)", pytrace=False)
    pytest.skip(reason)


def _from_environment(flavor: str) -> MySqlServer | None:
    url = os.environ.get(f"CDC_TEST_{flavor.upper()}_URL")
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname:
        pytest.fail(f"CDC_TEST_{flavor.upper()}_URL must look like mysql://user:password@host:port", pytrace=False)
    user, password = unquote(parts.username or "root"), unquote(parts.password or "")
    return _asked(MySqlServer(parts.hostname, parts.port or 3306, user, password, flavor, ""))


def _from_binary(flavor: str, stack: ExitStack, extra_args: tuple[str, ...] = ()) -> StartedServer | None:
    installation = find(flavor)
    if installation is None:
        return None
    server = StartedServer(installation, extra_args)
    stack.callback(server.close)
    return server


def _from_docker(flavor: str, stack: ExitStack) -> MySqlServer | None:
    if not _docker_answers():
        return None
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    variable = "MYSQL_ROOT_PASSWORD" if flavor == "mysql" else "MARIADB_ROOT_PASSWORD"
    options = ["--server-id=1", "--log-bin=binlog", "--binlog-format=ROW"]
    if flavor == "mysql":
        options += ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    container = DockerContainer(_IMAGES[flavor]).with_env(variable, "cdc-root-pass").with_command(" ".join(options))
    # The images start a first server to initialize, which says port 0; MySQL's X plugin says 33060.
    ready = LogMessageWaitStrategy(re.compile(r"port: 3306\b")).with_startup_timeout(120)
    stack.enter_context(container.with_exposed_ports(3306).waiting_for(ready))
    host, port = container.get_container_host_ip(), int(container.get_exposed_port(3306))
    return _asked(MySqlServer(host, port, "root", "cdc-root-pass", flavor, ""))


def _docker_answers() -> bool:
    if not os.path.exists("/var/run/docker.sock") and not os.environ.get("DOCKER_HOST"):
        return False
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def _asked(server: MySqlServer) -> MySqlServer:
    version = str(server.execute("SELECT VERSION()")[0][0])
    if ("mariadb" in version.lower()) != (server.flavor == "mariadb"):
        pytest.fail(f"{server.host}:{server.port} is {version}, not {server.flavor}", pytrace=False)
    server.version = version.partition("-")[0]
    return server
