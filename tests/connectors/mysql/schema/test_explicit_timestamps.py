"""What a TIMESTAMP column is that does not say NULL: `explicit_defaults_for_timestamp`, from wherever it is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from binlog_builder import gtid, log, query
from together import together

from cdc.schema import AddColumn, TableId
from connectors.mysql import events
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.kernels import framing
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.schema.tracker import apply_query
from connectors.shared.ddl.dialect import DdlDialect

T = TableId("shop", "t")
_ON, _OFF = b"\0\0\0\x01", b"\0\0\0\0"


@pytest.mark.parametrize("explicit", [True, False])
def test_rows_that_are_there_get_a_time_that_the_log_does_not_tell(explicit: bool) -> None:
    """The first TIMESTAMP of a table defaults to the present time, without a word of it."""
    catalog = TableDefinitions(
        captures=lambda table: True, dialect=DdlDialect.of("9.7.4"), copied_when_uncertain=lambda table: True
    )
    catalog.define((), databases={"shop": "utf8mb4"})
    catalog.apply("CREATE TABLE t (id INT PRIMARY KEY)", "shop")
    added = catalog.apply("ALTER TABLE t ADD at TIMESTAMP", "shop", explicit_timestamps=explicit)
    assert (T in added.delta.uncertain) == (not explicit)
    stated = catalog.apply("ALTER TABLE t ADD more TIMESTAMP NULL", "shop", explicit_timestamps=explicit)
    assert not stated.delta.uncertain


@together(
    "version, flags, nullable",
    [
        ("10.11.19-MariaDB", _ON, True),
        ("10.11.19-MariaDB", _OFF, False),
        ("10.6.1-MariaDB", _OFF, False),  # that version does not tell: its default
        ("9.7.4", _OFF, True),  # a flag of MariaDB's
        ("5.7.44", _OFF, False),
    ],
)
def test_a_timestamp_is_what_the_server_makes_of_it(tmp_path: Path, version: str, flags: bytes, nullable: bool) -> None:
    body = query(b"CREATE TABLE t (id INT, at TIMESTAMP)", b"shop", b"\0" + flags)
    data = np.frombuffer(bytearray(log([(events.QUERY, body)])[len(events.MAGIC) :]), np.uint8)
    _, buffer = Indexer(framing.FILE, "binlog.000001", len(events.MAGIC)).buffers(data, len(data))
    catalog = TableDefinitions(captures=lambda table: True, dialect=DdlDialect.of(version))
    catalog.define((), databases={"shop": "utf8mb4"})
    apply_query(catalog, parse_query(buffer, 0), buffer, 0)
    assert catalog.tables[T].columns[1].nullable == nullable


def test_rows_that_are_there_get_the_moment_when_the_statement_began() -> None:
    """It is in the statement's own header; the commit comes later, however long the statement takes or waits."""
    sql = b"ALTER TABLE t ADD at TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP"
    written = log([(events.GTID, gtid(bytes(16), 1, 1_800_000_000_000_000)), (events.QUERY, query(sql))])
    data = np.frombuffer(bytearray(written[len(events.MAGIC) :]), np.uint8)
    _, buffer = Indexer(framing.FILE, "binlog.000001", len(events.MAGIC)).buffers(data, len(data))
    catalog = TableDefinitions(captures=lambda table: True, dialect=DdlDialect.of("9.7.4"))
    catalog.define((), databases={"shop": "utf8mb4"})
    catalog.apply("CREATE TABLE t (id INT PRIMARY KEY)", "shop")
    (change,) = apply_query(catalog, parse_query(buffer, 1), buffer, 1).changes
    assert isinstance(change, AddColumn)
    assert change.column.default == "2023-11-14 22:13:20"
