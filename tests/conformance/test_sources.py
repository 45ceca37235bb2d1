"""Every source passes the same named behaviours."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import FLAVORS, own_servers, source_of

from cdc.block import ChangeBlock
from cdc.schema import AddColumn, Column, CreateTable, DataType, Kind, SchemaChange, TableId, TableSchema
from cdc.schema_json import change_to_json
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import ListSource, SourceConformance, block
from cdc_services.server import MySqlServer, StartedServer
from connectors.mysql.binlog_files import BinlogFilesSource
from connectors.mysql.options import BinlogFilesSourceOptions, MySqlSourceOptions
from connectors.mysql.source import MySqlSource
from connectors.values.options import ValuesSourceOptions
from connectors.values.source import ValuesSource

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.BIGINT), nullable=False), Column("name", DataType(Kind.VARCHAR, 64))), ("id",)
)


class ListHarness:
    table = TABLE

    def __init__(self) -> None:
        self._items: list[SchemaChange | ChangeBlock] = []
        self._schema = SCHEMA

    def source(self) -> ListSource:
        return ListSource(self._items)

    def create(self) -> None:
        self._items.append(CreateTable(TABLE, SCHEMA))

    def insert(self, *rows: tuple[int, str | None]) -> None:
        self._write([("+I", {"id": id_, "name": name}) for id_, name in rows])

    def update(self, id_: int, old: str, new: str) -> None:
        self._write([("-U", {"id": id_, "name": old}), ("+U", {"id": id_, "name": new})])

    def delete(self, id_: int, old: str) -> None:
        self._write([("-D", {"id": id_, "name": old})])

    def add_column(self, name: str) -> None:
        column = Column(name, DataType(Kind.STRING))
        self._schema = TableSchema((*self._schema.columns, column), ("id",))
        self._items.append(AddColumn(TABLE, column))

    def _write(self, changes: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._items.append(block(TABLE, self._schema, changes, sequence=len(self._items)))


class ValuesHarness(ListHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / "log.jsonl"
        self._path.touch()

    def source(self) -> ValuesSource:  # type: ignore[override]
        options = ValuesSourceOptions(type="values", path=str(self._path))
        return ValuesSource(options, Context("pipeline-1", LocalStore(self._folder)))

    def create(self) -> None:
        self._append(change_to_json(CreateTable(TABLE, SCHEMA)))

    def add_column(self, name: str) -> None:
        self._append(change_to_json(AddColumn(TABLE, Column(name, DataType(Kind.STRING)))))

    def _write(self, changes: Sequence[tuple[str, dict[str, Any]]]) -> None:
        rows = [{"op": symbol, "table": str(TABLE), "row": row} for symbol, row in changes]
        self._append(*rows, {"commit": True})

    def _append(self, *lines: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


class MySqlHarness:
    """A database of its own on a shared server; its log begins where the server's log is now."""

    def __init__(self, server: MySqlServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.table = TableId(server.new_database("conformance"), "orders")
        status = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
        self._file, self._position, *_ = server.execute(status)[0]

    def source(self) -> MySqlSource:
        start = {"mode": "specific-offset", "specific-offset.file": self._file, "specific-offset.pos": self._position}
        given = {f"scan.startup.{name}": value for name, value in start.items()}
        options = source_of(self._server, str(self.table), **given)
        return MySqlSource(MySqlSourceOptions.model_validate(options), Context("pipeline-1", LocalStore(self._folder)))

    def create(self) -> None:
        self._run("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(64))")

    def insert(self, *rows: tuple[int, str | None]) -> None:
        values = ", ".join(f"({id_}, {self._text(name)})" for id_, name in rows)
        self._run(f"INSERT INTO orders (id, name) VALUES {values}")

    def update(self, id_: int, old: str, new: str) -> None:
        self._run(f"UPDATE orders SET name = {self._text(new)} WHERE id = {id_}")

    def delete(self, id_: int, old: str) -> None:
        self._run(f"DELETE FROM orders WHERE id = {id_}")

    def add_column(self, name: str) -> None:
        self._run(f"ALTER TABLE orders ADD {name} TEXT")

    def _text(self, value: str | None) -> str:
        return "NULL" if value is None else f"'{value}'"

    def _run(self, statement: str) -> None:
        self._server.execute(statement, database=self.table.database)


class BinlogFilesHarness(MySqlHarness):
    """The files of that server, while it writes them."""

    def __init__(self, server: StartedServer, folder: Path) -> None:
        super().__init__(server, folder)
        self._files = str(server.datadir / "binlog.0*")

    def source(self) -> BinlogFilesSource:  # type: ignore[override]
        options = BinlogFilesSourceOptions(type="binlog-files", path=self._files, tables=str(self.table))
        return BinlogFilesSource(options, Context("pipeline-1", LocalStore(self._folder)))


class TestListSource(SourceConformance):
    @pytest.fixture
    def harness(self) -> ListHarness:
        return ListHarness()


class TestValuesSource(SourceConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> ValuesHarness:
        return ValuesHarness(tmp_path)


@pytest.mark.mysql
class TestMySqlSource(SourceConformance):
    @pytest.fixture
    def harness(self, any_server: MySqlServer, tmp_path: Path) -> MySqlHarness:
        return MySqlHarness(any_server, tmp_path)


@pytest.fixture(scope="module", params=FLAVORS)
def local_server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    """A server whose files can be read."""
    with own_servers() as make:
        yield make(request.param)


@pytest.mark.mysql
class TestBinlogFilesSource(SourceConformance):
    @pytest.fixture
    def harness(self, local_server: StartedServer, tmp_path: Path) -> BinlogFilesHarness:
        return BinlogFilesHarness(local_server, tmp_path)
