"""Patterns of tables compare names as the server does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import ServerFactory

from cdc.errors import SourceError
from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import all_images, drain
from cdc_services.server import StartedServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql


def source(server: StartedServer, folder: Path, **options: Any) -> MySqlSource:
    given = {name.replace("__", "."): value for name, value in options.items()}
    fields = {
        "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
        "password": server.password, "tls.mode": "disabled",
            "allow-public-key-retrieval": True, "scan.startup.mode": "latest-offset", **given,
    }  # fmt: skip
    return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(folder)))


@pytest.fixture
def telling_apart(any_server: StartedServer) -> tuple[StartedServer, str]:
    database = any_server.new_database("names")
    any_server.execute("CREATE TABLE Orders (id INT)", "CREATE TABLE orders (id INT)", database=database)
    return any_server, database


def test_a_server_that_tells_case_apart(telling_apart: tuple[StartedServer, str], tmp_path: Path) -> None:
    server, name = telling_apart
    left_out = source(server, tmp_path / "a", tables=rf"{name}.\.*", tables__exclude=f"{name}.orders")
    assert list(left_out.tables()) == [TableId(name, "Orders")]
    taken = source(server, tmp_path / "b", tables=f"{name}.orders")
    assert list(taken.tables()) == [TableId(name, "orders")]
    start = left_out.initial_offset()
    server.execute("INSERT INTO Orders VALUES (1)", "INSERT INTO orders VALUES (2)", database=name)
    assert [row["id"] for _, row in all_images(drain(left_out, start))] == [1]


def test_a_table_in_another_case_is_none(telling_apart: tuple[StartedServer, str], tmp_path: Path) -> None:
    server, name = telling_apart
    with pytest.raises(SourceError, match=rf"table names are case-sensitive on this server, which has {name}.Orders"):
        source(server, tmp_path, tables=f"{name}.ORDERS").tables()


def test_a_server_that_folds_names(server_factory: ServerFactory, tmp_path: Path) -> None:
    server = server_factory("mariadb", extra_args=["--lower-case-table-names=1"])
    name = server.new_database("names")
    server.execute("CREATE TABLE Orders (id INT)", "CREATE TABLE Items (id INT)", database=name)
    here = source(server, tmp_path, tables=rf"{name.upper()}.\.*", tables__exclude=f"{name}.ITEMS")
    assert list(here.tables()) == [TableId(name, "orders")]
    start = here.initial_offset()
    server.execute(
        "INSERT INTO ORDERS VALUES (1)", "ALTER TABLE ORDERS ADD n INT", "INSERT INTO Orders VALUES (2, 3)",
        "INSERT INTO Items VALUES (4)", database=name,
    )  # fmt: skip
    assert [row["id"] for _, row in all_images(drain(here, start))] == [1, 2]


def test_an_earlier_start_on_a_server_that_folds_names(server_factory: ServerFactory, tmp_path: Path) -> None:
    """A statement since the start that writes the table in another case is one of that table."""
    server = server_factory("mariadb", extra_args=["--lower-case-table-names=1"])
    name = server.new_database("names")
    server.execute(
        "CREATE TABLE Orders (id INT)", "INSERT INTO Orders VALUES (1)", "ALTER TABLE ORDERS ADD n INT FIRST",
        "INSERT INTO orders VALUES (5, 2)", database=name,
    )  # fmt: skip
    here = source(server, tmp_path, tables=rf"{name}.\.*", scan__startup__mode="earliest-offset")
    images = [row for _, row in all_images(drain(here, here.initial_offset()))]
    assert images == [{"id": 1}, {"n": 5, "id": 2}]
