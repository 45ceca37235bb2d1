"""Fixtures that every test may use."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import hypothesis
import pytest
import servers
import tiers
from doris_servers import DorisServer, own_doris, shared_doris
from kafka_servers import BrokerFactory, KafkaServer, own_brokers, shared_broker
from open_files import OpenFiles
from servers import FLAVORS, SINK_SERVER, ServerFactory, own_oceanbase, own_search, own_servers, shared_server
from starrocks_servers import StarRocksServer, own_starrocks, shared_starrocks

from cdc.process.without_pandas import hide_pandas
from cdc_services.search.server import SearchServer
from cdc_services.server import MySqlServer

if TYPE_CHECKING:
    from s3_server import S3Server

# Processes that tests start use the servers of this source tree too (pytest itself: `pythonpath` in pyproject.toml).
_SERVERS = str(Path(__file__).parent / "devservers")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SERVERS, os.environ.get("PYTHONPATH", "")]))

hide_pandas()  # as in the product's processes: PyArrow would load it for the first array

# No example is to fail as the machine was busy while it ran.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("unhurried"), max_examples=30)
"""For all tiers but the exhaustive one, which tries as many as hypothesis does by itself."""

_ONE_PROCESS = {
    "kafka": ("test_kafka_source.py", "test_kafka_sink.py", "test_kafka_round_trip.py"),
    "sinks": (
        "test_elasticsearch_sink.py", "test_elasticsearch_documents.py", "test_elasticsearch_refused.py",
        "test_elasticsearch_routing.py",
        "test_server_lives.py", "test_mysql_sink.py", "test_mysql_sink_tables.py",
    ),
    "s3": ("test_bucket.py", "test_remote_commands.py", "test_store.py", "test_dead_letters.py"),
}  # fmt: skip
"""Files that share servers which take as long to start as many of their tests: the Kafka broker, with all of
`connectors/kafka`; OpenSearch, Elasticsearch, OceanBase and the databases for sinks; the S3 server."""


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("few" if "not exhaustive" in config.option.markexpr else "unhurried")
    servers.left_out = "not mysql" in config.option.markexpr
    config.pluginmanager.register(tiers)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is said now to tests/golden")


@cache
def tests_of_a_process(file: str) -> str:
    """Name of what stays in one process with the tests of a file."""
    path = Path(file)
    if path.parts[-3:-1] == ("connectors", "kafka"):
        return "kafka"
    return next((name for name, files in _ONE_PROCESS.items() if path.name in files), file)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs come first, then what is slow, then the thousands of short tests: they fill what is left at the end,
    where a process with a last long file would have the others wait for it. Tests of a file stay together."""
    marks = ("spark", "slow")
    long: dict[str, int] = {}
    for item in items:
        place = tests_of_a_process(item.nodeid.partition("::")[0])
        own = next((number for number, mark in enumerate(marks) if item.get_closest_marker(mark)), len(marks))
        long[place] = min(own, long.get(place, own))
    items.sort(key=lambda item: long[tests_of_a_process(item.nodeid.partition("::")[0])])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile` does, but files that share a slow server go to one process: each has servers of its own."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneProcess(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return tests_of_a_process(super()._split_scope(nodeid))

    return OneProcess(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector never goes through it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # DuckDB's binding counts what is left at the very end


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """`pytest tests/spec tests/transform --update-golden`."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def files_stay_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """For tests that are about something else than opening DuckDB files; a call closes those that are open."""
    files = OpenFiles()
    monkeypatch.setattr(duckdb, "connect", files.connect)
    yield files.close
    files.close()


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MySqlServer]:
    """The session's MySQL: binary log in ROW format, GTIDs on."""
    with shared_server("mysql") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MySqlServer]:
    """The session's MariaDB: binary log in ROW format."""
    with shared_server("mariadb") as server:
        yield server


@pytest.fixture(scope="session")
def mysql_sink_server() -> Iterator[MySqlServer]:
    """The session's MySQL for sinks: LOAD DATA LOCAL allowed, commits survive a crash."""
    with own_servers() as make:
        yield make("mysql", SINK_SERVER)


@pytest.fixture(scope="session")
def mariadb_sink_server() -> Iterator[MySqlServer]:
    """The session's MariaDB for sinks, likewise."""
    with own_servers() as make:
        yield make("mariadb", SINK_SERVER)


@pytest.fixture(scope="session")
def oceanbase_sink_server() -> Iterator[MySqlServer]:
    """The session's OceanBase engine."""
    with own_oceanbase() as server:
        yield server


@pytest.fixture(scope="session")
def opensearch() -> Iterator[SearchServer]:
    """The session's OpenSearch. Stop and kill others."""
    with own_search(os.environ.get("CDC_TEST_OPENSEARCH", "opensearch")) as server:
        yield server


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[SearchServer]:
    """The session's Elasticsearch."""
    with own_search(os.environ.get("CDC_TEST_ELASTICSEARCH", "elasticsearch")) as server:
        yield server


@pytest.fixture(params=FLAVORS)
def any_server(request: pytest.FixtureRequest) -> MySqlServer:
    """The test runs once on MySQL and once on MariaDB."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def server_factory() -> Iterator[ServerFactory]:
    """Starts servers of this test's own, with options: `server_factory("mysql", extra_args=["--gtid-mode=OFF"])`."""
    with own_servers() as make:
        yield make


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaServer]:
    """The session's Kafka broker: topics are not created by themselves; take `new_topic`."""
    with shared_broker() as broker:
        yield broker


@pytest.fixture
def broker_factory() -> Iterator[BrokerFactory]:
    """Starts brokers of this test's own, with settings, to be stopped and killed: `broker_factory({...})`."""
    with own_brokers() as make:
        yield make


@pytest.fixture(scope="session")
def starrocks() -> Iterator[StarRocksServer]:
    """The session's StarRocks: a real one when `CDC_TEST_STARROCKS` says so, else our stand-in. Arm no faults."""
    with shared_starrocks() as server:
        yield server


@pytest.fixture
def starrocks_standin() -> Iterator[StarRocksServer]:
    """A stand-in of this test's own: faults, kills and restarts are welcome."""
    with own_starrocks() as server:
        yield server


@pytest.fixture(scope="session")
def doris() -> Iterator[DorisServer]:
    """The session's Doris: a real one when `CDC_TEST_DORIS` says so, else our stand-in. Arm no faults."""
    with shared_doris() as server:
        yield server


@pytest.fixture
def doris_standin() -> Iterator[DorisServer]:
    """A stand-in of this test's own: faults, kills and restarts are welcome."""
    with own_doris() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The session's S3 server."""
    from s3_server import s3_server

    with s3_server() as server:
        yield server
