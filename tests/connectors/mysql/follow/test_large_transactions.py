"""Transactions around the borders of packets and of pieces, compressed and plain, as the last of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import FLAVORS, own_servers, source_of

from cdc.source import Context, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import all_images, drain
from cdc_services.server import StartedServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql
BORDER = 1 << 24
COMPRESSED = {
    "mysql": ["SET SESSION binlog_transaction_compression = ON"],
    "mariadb": ["SET GLOBAL log_bin_compress = ON"],
}
PLAIN = {"mysql": [], "mariadb": ["SET GLOBAL log_bin_compress = OFF"]}


@pytest.fixture(scope="module", params=FLAVORS)
def server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    with own_servers() as make:
        made = make(request.param)
        made.execute("SET GLOBAL max_allowed_packet = 1073741824")
        yield made


def bounded(server: StartedServer, database: str, folder: Path) -> tuple[MySqlSource, Offset]:
    options = source_of(server, rf"{database}.\.*", **{"scan.startup.mode": "latest-offset"})
    source = MySqlSource(MySqlSourceOptions.model_validate(options), Context("p", LocalStore(folder)))
    return source, source.initial_offset()


def found(source: MySqlSource, start: Offset) -> list[tuple[int, int]]:
    """Ids and sizes of the rows that a run to the end of the log reads."""
    return [(row["id"], len(row["a"])) for _, row in all_images(drain(source, start))]


@pytest.mark.parametrize(("size", "compressed"), [
    (BORDER - 76, True), pytest.param(BORDER - 76, False, marks=pytest.mark.slow),
    *(pytest.param(size, how, marks=pytest.mark.slow)
      for size in (BORDER - 77, BORDER - 1, BORDER, BORDER + 1) for how in (True, False)),
])  # fmt: skip
def test_the_last_transaction_of_the_log_comes(
    server: StartedServer, size: int, compressed: bool, tmp_path: Path
) -> None:
    database = server.new_database("large")
    server.execute("CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT)", database=database)
    source, start = bounded(server, database, tmp_path)
    how = (COMPRESSED if compressed else PLAIN)[server.flavor]
    server.execute(*how, f"INSERT INTO t VALUES (1, REPEAT('A', {size}))", database=database)
    assert found(source, start) == [(1, size)]


def test_all_tables_of_a_large_transaction_come_also_at_the_end_of_a_file(
    server: StartedServer, tmp_path: Path
) -> None:
    """Random bytes, which compression does not make smaller; the next file has nothing."""
    database = server.new_database("large")
    tables = "tuvw"
    server.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, a LONGBLOB)" for name in tables), database=database)
    source, start = bounded(server, database, tmp_path)
    random = "SELECT 1, GROUP_CONCAT(SHA2(n, 512) SEPARATOR '') FROM numbers"
    numbers = "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 30000)"
    limit = {
        "mysql": "SET SESSION cte_max_recursion_depth = 100000",
        "mariadb": "SET max_recursive_iterations = 100000",
    }
    server.execute(
        *COMPRESSED[server.flavor], limit[server.flavor], "SET SESSION group_concat_max_len = 100000000",
        "BEGIN",
        *(f"INSERT INTO {name} {numbers} {random}" for name in tables), "COMMIT", "FLUSH BINARY LOGS",
        database=database,
    )  # fmt: skip
    assert found(source, start) == [(1, 128 * 30000)] * 4
