"""The behaviours of a sink, over real servers: MySQL and MariaDB, with LOAD DATA and without."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mysql_sink_harness import Harness
from tiers import in_turn

from cdc.testing import SinkConformance
from cdc.testing.sink_conformance import VALUES
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.mysql]

NUMBER = itertools.count()


NO_VECTOR_WITHOUT_NUMBERS = ("VECTOR(3)", ([1.0, 2.5, -3.0], [0.0, 1.0, 2.0]))
OWN_SPELLING = ("JSON", ('{"a": [1, 2.5, null], "b": "ü"}', "null"))
"""MySQL keeps a document's value, and spells it in its own way."""


class _OnServer(SinkConformance):
    values = tuple(
        {"VECTOR(3)": NO_VECTOR_WITHOUT_NUMBERS, "JSON": OWN_SPELLING}.get(text, (text, values))
        for text, values in VALUES
    )

    def _harness(self, server: MySqlServer, folder: Path, **given: Any) -> Harness:
        server.execute("DROP DATABASE IF EXISTS shop")
        return Harness(server, folder / "state", f"pipeline-{os.getpid()}-{next(NUMBER)}", **given)


class TestMySqlSink(_OnServer):
    @pytest.fixture
    def harness(self, mysql_sink_server: MySqlServer, tmp_path: Path) -> Harness:
        return self._harness(mysql_sink_server, tmp_path)


@in_turn(0, 3)
class TestMySqlSinkWithoutLocalFiles(_OnServer):
    """The server's default: rows are written by INSERT."""

    @pytest.fixture
    def harness(self, mysql_sink_server: MySqlServer, tmp_path: Path) -> Iterator[Harness]:
        mysql_sink_server.execute("SET GLOBAL local_infile = OFF")
        yield self._harness(mysql_sink_server, tmp_path)
        mysql_sink_server.execute("SET GLOBAL local_infile = ON")


@in_turn(1, 3)
class TestMariaDbSink(_OnServer):
    @pytest.fixture
    def harness(self, mariadb_sink_server: MySqlServer, tmp_path: Path) -> Harness:
        return self._harness(mariadb_sink_server, tmp_path)


@in_turn(2, 3)
class TestOceanBaseSink(_OnServer):
    @pytest.fixture
    def harness(self, oceanbase_sink_server: MySqlServer, tmp_path: Path) -> Harness:
        return self._harness(oceanbase_sink_server, tmp_path)
