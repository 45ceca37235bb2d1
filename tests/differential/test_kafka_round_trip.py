"""MySQL -> Kafka -> DuckDB after a random workload with statements in between: every table that comes out of the topics
equals the server's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_process import Pipeline, mysql_pipeline
from comparison import differences
from direct import DirectRuns
from kafka_servers import KafkaServer
from tiers import one_in
from workload import Column, Workload

from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.mysql, pytest.mark.kafka]

_LIMITS = Limits(1 << 24, 5000)
_FORMATS: dict[str, dict[str, Any]] = {
    "debezium-json": {
        "sink.schema-changes": "topic",
        "debezium-json.skipped.operations": "none",
        "debezium-json.include-schema.enabled": True,
        "debezium-json.bigint.unsigned.handling.mode": "precise",
    },
    "canal-json": {"sink.schema-changes": "inline"},
}
_STATEMENTS = ("ADD COLUMN", "DROP COLUMN", "RENAME COLUMN", "TRUNCATE", "RENAME TABLE", "RENAME BOTH", "DROP TABLE")
"""What a reader of the topics can carry out."""


class RealDays(Workload):
    """Columns that are NOT NULL hold days of the calendar: others are the epoch in Debezium's messages."""

    def value(self, column: Column) -> str:
        if column.nullable or not column.kind.declaration.startswith(("DATE", "TIMESTAMP")):
            return super().value(column)
        year, month, day = self.rng.randint(1971, 2037), self.rng.randint(1, 12), self.rng.randint(1, 28)
        return f"'{year}-{month:02}-{day:02}'"


def change_tables(work: Workload) -> None:
    """Each statement on two tables with rows before and after it."""
    for number, kind in enumerate(_STATEMENTS * 2):
        table = work.rng.choice([table for table in work.tables if table.key and len(table.columns) > 4])
        plain = [column for column in table.columns if column.name not in table.key]
        column, name = work.rng.choice(plain), f"new{number}"
        if kind == "ADD COLUMN":
            added = replace(column, name=name, nullable=True, kind=work.kind("INT"))
            work.sql(f"ALTER TABLE {table.sql} ADD COLUMN {added.sql} DEFAULT 7")
            table.columns.append(added)
        elif kind == "DROP COLUMN":
            work.sql(f"ALTER TABLE {table.sql} DROP COLUMN `{column.name}`")
            table.columns.remove(column)
        elif kind == "RENAME COLUMN":
            work.sql(f"ALTER TABLE {table.sql} RENAME COLUMN `{column.name}` TO `{name}`")
            table.columns[table.columns.index(column)] = replace(column, name=name)
        elif kind == "RENAME BOTH":
            other = table.copy(f"table{number}")
            work.sql(f"ALTER TABLE {table.sql} RENAME COLUMN `{column.name}` TO `{name}`, RENAME TO {other.sql}")
            table.columns[table.columns.index(column)] = replace(column, name=name)
            table.name = other.name
        elif kind == "RENAME TABLE":
            renamed = table.copy(name)
            work.sql(f"RENAME TABLE {table.sql} TO {renamed.sql}")
            table.name = name
        else:
            work.sql(f"{kind.removesuffix(' TABLE') if kind == 'TRUNCATE' else kind} {table.sql}")
        if kind == "DROP TABLE":
            work.tables.remove(table)
        else:
            work.insert(table)
        work.change_rows()


@dataclass
class ToKafka(Pipeline):
    """A pipeline into topics."""

    topics: Any = None

    def write(self) -> None:
        super().write()
        document = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        document["sink"] = self.topics
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


@pytest.fixture
def work(mysql_server: MySqlServer, tmp_path: Path, format: str) -> Iterator[Workload]:
    """Tables that hold every type between them, with and without a key, and some with a key of another type."""
    found = RealDays(mysql_server, [mysql_server.new_database("d"), mysql_server.new_database("e")], 7)
    if format == "canal-json":  # Canal has no VECTOR: it is text there
        found.kinds = [kind for kind in found.kinds if not kind.declaration.startswith("VECTOR")]
    found.connect()
    integer = found.kind("INT UNSIGNED")
    for part in range(2):
        found.create(found.kinds[part::2], (integer,))
        found.create(found.kinds[part::2], ())
    for kind in [kind for kind in found.kinds if kind.key][::6]:
        found.create(found.kinds[:2], (kind,))
    for table in found.tables * 5:
        found.insert(table)
    try:
        yield found
    finally:
        found.close()
        (tmp_path / "workload.sql").write_text("\n".join(found.log), encoding="utf-8")


@pytest.mark.parametrize("format", one_in(2, [*_FORMATS]))
def test_tables_out_of_topics_are_the_servers(
    work: Workload, kafka_broker: KafkaServer, tmp_path: Path, format: str
) -> None:
    prefix = kafka_broker.new_name("trip")
    tables = ",".join(rf"{database}.\.*" for database in work.databases)
    address = {"properties.bootstrap.servers": kafka_broker.bootstrap}
    mysql = mysql_pipeline(tmp_path / "in", work.server, tables, scan__startup__mode="initial")
    # All pipelines of these runs have one name, and fences that go by it.
    own = {"topic.prefix": prefix, "sink.transactional-id-prefix": prefix, "topic.create.partitions": 1}
    if format == "canal-json":  # rows of renamed tables stay in one order
        own["topic"] = f"{prefix}.all"
    to = {"type": "kafka", "value.format": format, **own, **address, **_FORMATS[format]}
    first = DirectRuns(ToKafka(mysql.folder, mysql.source, mysql.password, topics=to))
    first.catch_up(_LIMITS)
    for _ in range(100):
        work.change_rows()
    change_tables(work)
    first.catch_up(_LIMITS)
    source = {"type": "kafka", "topic-pattern": rf"{prefix}(\..*)?", "value.format": format, **address}
    out = Pipeline(tmp_path / "out", source)
    DirectRuns(out).catch_up(_LIMITS)
    assert differences(work.server, out, work.databases) == []
