"""Where `call_kills` writes to: each sink with a server or a folder, its options, and a look at what is there."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import doris_harness
import duckdb
import mysql_sink_harness
import search_harness
import starrocks_harness
from doris_servers import own_doris
from iceberg_harness import IcebergHarness
from kafka_servers import KafkaServer, own_brokers
from lake_calls import called
from paimon_harness import PaimonHarness
from servers import SINK_SERVER, own_oceanbase, own_search, own_servers
from starrocks_servers import own_starrocks

from cdc.schema import TableId
from cdc.sink import Sink
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc_services.server import MySqlServer
from cdc_standins import StandIn
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

Row = dict[str, Any]
_names = itertools.count(1)
WAIT = "10 s"
"""What a new process waits for at most: it finds what it needs at once, or the try fails."""


@dataclass
class Place:
    """A sink of one pipeline. All of its functions are called in processes that do nothing else.

    Attributes:
        sink: how a process makes it, with the state directory's sink folder.
        rows: the rows of a table, None when there is no such table.
        messages: for a sink that keeps each change, what readers find instead: the changes of a table in order.
        statements: the schema changes that readers are told, in order.
        written: everything in it, in order, for a sink that keeps each change.
        owners: functions of a library that change something outside.
        tables: all tables, those that readers do not see too.
        left: what no table has, such as transactions that are open; of a pipeline at rest there is none.
    """

    sink: Callable[[Path], Sink]
    rows: Callable[[TableId], list[Row] | None]
    messages: Callable[[TableId], list[Row | None]] | None = None
    statements: Callable[[], list[str]] | None = None
    written: Callable[[], dict[str, list[Any]]] | None = None
    owners: Callable[[], list[tuple[Any, str]]] = field(default=list)
    tables: Callable[[], list[TableId]] = field(default=list)
    left: Callable[[], list[str]] = field(default=list)


Make = Callable[[Path], Place]
"""Makes the place of a pipeline, in a folder of its own."""


def _duckdb(folder: Path) -> Place:
    path = folder / "lake.duckdb"

    def sink(state: Path) -> Sink:
        options = DuckDbSinkOptions.model_validate({"type": "duckdb", "path": str(path), "lock-timeout": WAIT})
        return DuckDbSink(options, Context("calls", LocalStore(state)))

    def rows(table: TableId) -> list[Row] | None:
        with duckdb.connect(str(path), read_only=True) as connection:
            known = f"SELECT * FROM information_schema.tables WHERE table_name = '{table.table}'"
            if not connection.sql(known).fetchall():
                return None
            return connection.sql(f'FROM "{table.database}"."{table.table}"').to_arrow_table().to_pylist()

    def tables() -> list[TableId]:
        with duckdb.connect(str(path), read_only=True) as connection:
            return _named(connection.sql(_TABLES).fetchall())

    return Place(sink, rows, tables=tables, left=lambda: _staged(folder))


_TABLES = "SELECT table_schema, table_name FROM information_schema.tables"
_TAKEN = frozenset({"_cdc", "information_schema", "main", "mysql", "performance_schema", "sys", "__internal_schema"})


def _named(names: Sequence[Sequence[Any]]) -> list[TableId]:
    """Tables of the pipelines among those of a server."""
    found = [TableId(*(each.decode() if isinstance(each, bytes) else str(each) for each in row)) for row in names]
    return [table for table in found if table.database.lower() not in _TAKEN]


def _staged(folder: Path) -> list[str]:
    """Files of rows in the sink's part of the state directory."""
    files = (folder / "state/sink").rglob("*")
    return sorted(str(path) for path in files if path.suffix not in ("", ".json", ".unsure"))


def _harnessed(
    make: Callable[[Path, str], Any],
    tables: Callable[[], list[TableId]] = list,
    left: Callable[[Path], list[str]] = _staged,
) -> Make:
    """A place by a connector's harness."""

    def place(folder: Path) -> Place:
        name = f"calls-{next(_names)}"
        state = folder / "state/sink"
        return Place(
            lambda store: make(store, name).sink(), lambda table: make(state, name).rows(table),
            tables=tables, left=lambda: left(folder),
        )  # fmt: skip

    return place


def _cleared(make: Make, clear: Callable[[], None]) -> Make:
    def place(folder: Path) -> Place:
        clear()
        return make(folder)

    return place


@contextmanager
def _doris() -> Iterator[Make]:
    with own_doris() as server:
        make = _harnessed(
            lambda state, name: doris_harness.Harness(server, state, name, {"retry-timeout": WAIT}),
            lambda: _named(server.query(_TABLES)),
            lambda folder: _open_loads(server.own),
        )
        yield _cleared(make, lambda: _drop(server.query, " FORCE"))


def _drop(query: Callable[[str], Any], how: str = "") -> None:
    for database in ("shop", "ods"):
        query(f"DROP DATABASE IF EXISTS {database}{how}")


def _open_loads(standin: StandIn) -> list[str]:
    ended = ("VISIBLE", "COMMITTED", "ABORTED")
    return [str(each) for each in standin.transactions() if each["state"] not in ended]


@contextmanager
def _starrocks() -> Iterator[Make]:
    with own_starrocks() as server:
        standin = server.own
        make = _harnessed(
            lambda state, name: starrocks_harness.Harness(server, state, {"retry-timeout": WAIT}),
            lambda: _named(standin.query(_TABLES)),
            lambda folder: _open_loads(standin),
        )
        yield _cleared(make, lambda: _drop(standin.query, " FORCE"))


def _database(server: Any) -> Make:
    make = _harnessed(
        lambda state, name: mysql_sink_harness.Harness(server, state, name, {"retry-timeout": WAIT}),
        lambda: _named(server.execute(_TABLES)),
    )
    return _cleared(make, lambda: _drop(server.execute))


@contextmanager
def _mysql(flavor: str) -> Iterator[Make]:
    with own_servers() as start:
        yield _database(start(flavor, SINK_SERVER))


@contextmanager
def _oceanbase() -> Iterator[Make]:
    with own_oceanbase() as server:
        yield _database(server)


def _documents(server: Any) -> Make:
    def ask(kind: str) -> set[str]:
        found = server.ask("GET", f"/_cat/{kind}?format=json&h=index,alias&expand_wildcards=all")
        return {
            row["alias" if kind == "aliases" else "index"]
            for row in found
            if not row["index"].startswith((".", "cdc-"))
        }

    def left(folder: Path) -> list[str]:
        aliased = server.ask("GET", "/_cat/aliases?format=json&h=index")
        return sorted({*_staged(folder), *ask("indices")} - {row["index"] for row in aliased})

    make = _harnessed(
        lambda state, name: search_harness.Harness(server, state, name, {"retry-timeout": WAIT}),
        lambda: [TableId.parse(name) for name in ask("aliases")],
        left,
    )
    return _cleared(make, lambda: search_harness.Harness(server, Path()).clear())


@contextmanager
def _search(kind: str) -> Iterator[Make]:
    with own_search(kind) as server:
        yield _documents(server)


def _broker(server: KafkaServer) -> Make:
    """A Kafka broker. This process must not have a client of its own."""

    def place(folder: Path) -> Place:
        name = server.new_name("calls")
        options = KafkaSinkOptions.model_validate({
            "type": "kafka", "properties.bootstrap.servers": server.bootstrap, "topic.prefix": name,
            "sink.schema-changes": "topic", "sink.schema-changes.topic": f"{name}-ddl", "retry-timeout": WAIT,
        })  # fmt: skip

        def messages(table: TableId) -> list[Row | None]:
            found = [json.loads(message.value() or b"null") for message in server.read(f"{name}.{table}")]
            return [fields["after"] for fields in found if fields is not None]

        def statements() -> list[str]:
            return [json.loads(message.value())["ddl"] for message in server.read(f"{name}-ddl")]

        def written() -> dict[str, list[Any]]:
            topics = sorted(topic for topic in server.topics() if topic.startswith((f"{name}.", f"{name}-")))
            return {
                topic.removeprefix(name): [_told(message.value()) for message in server.read(topic)] for topic in topics
            }

        return Place(
            lambda state: KafkaSink(options, Context(name, LocalStore(state))), lambda table: None, messages,
            statements, written,
        )  # fmt: skip

    return place


def _told(value: bytes | None) -> Any:
    """A message without its times."""
    fields = json.loads(value or b"null")
    return fields and {key: fields[key] for key in ("op", "before", "after", "ddl", "tableChanges") if key in fields}


@contextmanager
def _kafka() -> Iterator[Make]:
    with own_brokers() as start:
        yield _broker(start())


_UPKEEP = {"sink.compaction.files": "3", "retry-timeout": WAIT}
_KEPT = {
    "iceberg": {"sink.snapshots.keep": "2", "sink.snapshots.keep-for": "0s"},
    "paimon": {
        "table.properties.snapshot.num-retained.min": "1", "table.properties.snapshot.num-retained.max": "2",
        "table.properties.snapshot.time-retained": "1 ms",
    },
}  # fmt: skip
"""Files of earlier snapshots are deleted soon."""


def _lake(kind: str) -> Make:
    options = _UPKEEP | _KEPT[kind]

    def place(folder: Path) -> Place:
        harness: Any = IcebergHarness if kind == "iceberg" else PaimonHarness

        def sink(state: Path) -> Sink:
            found = harness(folder, options)
            found.context = Context("calls", LocalStore(state))
            made: Sink = found.sink()
            return made

        def tables() -> list[TableId]:
            lake = harness(folder, options).catalog
            catalog = lake.open()
            if kind == "paimon":
                names = ((name, table) for name in catalog.list_databases() for table in catalog.list_tables(name))
                return [table for table in itertools.starmap(TableId, names) if lake.stored(table) is not None]
            return [TableId(*table) for name in catalog.list_namespaces() for table in catalog.list_tables(name)]

        return Place(
            sink, lambda table: harness(folder, options).rows(table), owners=lambda: called(kind), tables=tables,
            left=lambda: _staged(folder),
        )  # fmt: skip

    return place


PLACES: dict[str, Callable[[], AbstractContextManager[Make]]] = {
    "duckdb": lambda: nullcontext(_duckdb), "doris": _doris, "starrocks": _starrocks, "kafka": _kafka,
    "iceberg": lambda: nullcontext(_lake("iceberg")), "paimon": lambda: nullcontext(_lake("paimon")),
    "mysql": lambda: _mysql("mysql"), "mariadb": lambda: _mysql("mariadb"), "oceanbase": _oceanbase,
    "opensearch": lambda: _search("opensearch"), "elasticsearch": lambda: _search("elasticsearch"),
}  # fmt: skip
"""Each kind with a server of its own."""

GIVEN: dict[str, Callable[[dict[str, Any]], Make]] = {
    "kafka": lambda fields: _broker(KafkaServer(**fields)), "mysql": lambda fields: _database(MySqlServer(**fields)),
}  # fmt: skip
"""The same on a server that is there, by its fields."""
