"""What MySQL and MariaDB give to rows already there when a NOT NULL column without a default is added."""

from __future__ import annotations

import pytest

from connectors.mysql.ddl.defaults import fill_text
from connectors.mysql.table import MySqlColumn


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("json", "null"),
        ("inet4", "0.0.0.0"),
        ("inet6", "::"),
        ("uuid", "00000000-0000-0000-0000-000000000000"),
        ("varchar", ""),
        ("int", "0"),
    ],
)
def test_rows_already_there_get_the_servers_implicit_default(type_: str, text: str) -> None:
    assert fill_text(MySqlColumn("c", type_, nullable=False)) == text
