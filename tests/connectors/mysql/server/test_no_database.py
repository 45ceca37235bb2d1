"""What answers is no database: OK to everything, without a result."""

from __future__ import annotations

from typing import Any, cast

import pytest
from together import together

from cdc.errors import SourceError
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.positions import list_logs
from connectors.mysql.server.server_info import query, server_info


class Agreeable:
    """A session with a server that says OK to every statement, and its cursor."""

    user, host, port, _read_timeout = b"app", "db", 3306, None
    description = None

    def cursor(self) -> Agreeable:
        return self

    def __enter__(self) -> Agreeable:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def execute(self, sql: str, arguments: object = None) -> int:
        return 0

    def fetchall(self) -> tuple[()]:
        return ()

    def get_server_info(self) -> str:
        return "9.7.0"


@together("ask", [
    server_info, list_logs, lambda session: read_tables(session, lambda table: True),
    lambda session: query(session, "SELECT 1"),
])  # fmt: skip
def test_it_is_told_as_such(ask: Any) -> None:
    with pytest.raises(SourceError, match="its answer is not that of MySQL or MariaDB"):
        ask(cast(MySqlConnection, Agreeable()))
    assert query(cast(MySqlConnection, Agreeable()), "FLUSH BINARY LOGS") == ()
