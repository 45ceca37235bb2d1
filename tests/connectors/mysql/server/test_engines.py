"""Tables of engines without transactions: no snapshot can be taken of them, which is told of all at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from servers import source_of

from cdc.errors import SourceError
from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc_services.server import MySqlServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql


def test_all_are_told_at_the_start_but_those_that_are_not_copied(
    any_server: MySqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = any_server.new_database()
    engines = {"a": "MyISAM", "b": "InnoDB", "c": "MEMORY", "d": "MyISAM"}
    statements = [f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE={engine}" for table, engine in engines.items()]
    any_server.execute(*statements, database=name)

    def source(**more: object) -> MySqlSource:
        given = source_of(any_server, rf"{name}.\.*", **more)
        return MySqlSource(MySqlSourceOptions.model_validate(given), Context("p", LocalStore(tmp_path)))

    modes, told = (
        {"scan.startup.table-modes": {f"{name}.d": "latest-offset"}},
        rf"{name}.a \(MyISAM\), {name}.c \(MEMORY\)",
    )
    with pytest.raises(SourceError, match=rf"^{told} on .*: 2 tables ") as error:
        source(**modes).initial_offset()
    assert f"ALTER TABLE `{name}`.`c` ENGINE=InnoDB" in error.value.hint
    source(**{"scan.startup.mode": "earliest-offset"}).tables()
    assert "engine" not in caplog.text
    assert list(source(**modes).tables()) == [TableId(name, table) for table in "abcd"], "those of a run are followed"
    assert re.search(rf"{told} on .*: 2 tables .*ALTER TABLE `{name}`.`c` ENGINE=InnoDB", caplog.text)
