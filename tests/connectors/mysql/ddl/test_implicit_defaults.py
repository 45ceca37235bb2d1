"""What MySQL and MariaDB give to rows already there when a column is added."""

from __future__ import annotations

import pytest

from connectors.mysql.ddl.defaults import default_text, fill_text
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.ddl.statements import Default, DefaultKind
from connectors.mysql.schema.table import MySqlColumn


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


def test_defaults_may_have_all_65_digits() -> None:
    column = MySqlColumn("c", "decimal", length=65, scale=30)
    default = Default(DefaultKind.NUMBER, "9" * 35 + ".5")
    assert default_text(default, column, Dialect()) == "9" * 35 + ".5" + "0" * 29
