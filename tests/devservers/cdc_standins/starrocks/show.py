"""SHOW and DESC: rows from the catalog and the jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc_standins.clock import text_of
from cdc_standins.sql_server import Result, SqlError, text_result
from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.catalog import INFORMATION
from cdc_standins.starrocks.errors import analyzing, denied
from cdc_standins.starrocks.jobs import Job
from cdc_standins.starrocks.schema import NOW, Column, Table
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.statements import Who, read_name

_JOB = (
    "JobId", "TableName", "CreateTime", "FinishTime", "IndexName", "IndexId", "OriginIndexId", "SchemaVersion",
    "TransactionId", "State", "Msg", "Progress", "Timeout",
)  # fmt: skip
_PLAIN = ("Field", "Type", "Null", "Key", "Default", "Extra")


@dataclass(slots=True)
class Rows:
    """A result before WHERE, ORDER BY and LIMIT."""

    names: Sequence[str]
    rows: list[Sequence[object]]


class Show:
    """Answers what follows SHOW, and DESC."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: tuple[tuple[tuple[str, ...], Callable[[Parser, Who], Rows]], ...] = (
            (("DATABASES",), self._databases),
            (("TABLES",), self._tables),
            (("CREATE", "TABLE"), self._create),
            (("PARTITIONS",), self._partitions),
            (("ALTER", "TABLE", "COLUMN"), self._jobs),
            (("BACKENDS",), self._backends),
        )

    def run(self, source: Parser, who: Who) -> Result:
        """The rows of a SHOW statement. Raises SqlError, Unparsable."""
        for words, answer in self._known:
            if source.take(*words):
                rows = answer(source, who)
                _narrow(source, rows)
                source.end()
                return text_result(rows.names, rows.rows)
        raise analyzing(f"the stand-in does not know SHOW {source.rest()[:40]}")

    def describe(self, source: Parser, who: Who) -> Result:
        """DESC table."""
        table = self._table(read_name(source, who), who)
        source.end()
        return text_result(_PLAIN, [_described(column) for column in table.columns])

    def _table(self, name: tuple[str, str], who: Who) -> Table:
        table = self._services.catalog.table(*name)
        if not any(self._services.users.allowed(who.user, it, *name) for it in ("SELECT", "INSERT", "ALTER", "DROP")):
            raise denied(f"you need (at least one of) the ANY privilege(s) on TABLE {table.name} for this operation.")
        return table

    def _database(self, source: Parser, who: Who) -> str:
        name = source.name() if source.take("FROM") or source.take("IN") else who.database
        if not name:
            raise SqlError("No database selected", 1046, "3D000")
        self._services.catalog.database_id(name)
        return name

    def _databases(self, _source: Parser, _who: Who) -> Rows:
        return Rows(("Database",), [(name,) for name in sorted((*self._services.catalog.databases, INFORMATION))])

    def _tables(self, source: Parser, who: Who) -> Rows:
        database = self._database(source, who)
        return Rows((f"Tables_in_{database}",), [(table.name,) for table in self._services.catalog.tables(database)])

    def _create(self, source: Parser, who: Who) -> Rows:
        table = self._table(read_name(source, who), who)
        return Rows(("Table", "Create Table"), [(table.name, create_sql(table))])

    def _partitions(self, source: Parser, who: Who) -> Rows:
        """One for each table: it has its name, and is another one once the table was truncated."""
        source.need("FROM")
        table = self._table(read_name(source, who), who)
        return Rows(("PartitionId", "PartitionName", "State"), [(table.data, table.name, "NORMAL")])

    def _jobs(self, source: Parser, who: Who) -> Rows:
        jobs = self._services.jobs.all(self._database(source, who))
        return Rows(_JOB, [_job(job) for job in jobs])

    def _backends(self, _source: Parser, _who: Who) -> Rows:
        row = (10001, "127.0.0.1", self._services.be_http_port, "true")
        return Rows(("BackendId", "IP", "HttpPort", "Alive"), [row])


VARIABLES: dict[str, object] = {
    "autocommit": 1, "version_comment": "StarRocks stand-in", "version": "8.0.33", "sql_mode": "ONLY_FULL_GROUP_BY",
    "time_zone": "UTC", "system_time_zone": "UTC", "character_set_client": "utf8mb4", "max_allowed_packet": 33554432,
    "lower_case_table_names": 0, "wait_timeout": 28800, "query_timeout": 300, "tx_isolation": "REPEATABLE-READ",
    "transaction_isolation": "REPEATABLE-READ", "character_set_server": "utf8mb4",
}  # fmt: skip
"""Session variables that clients ask for."""


def create_sql(table: Table) -> str:
    """SHOW CREATE TABLE."""
    keys = ", ".join(f"`{column.name}`" for column in table.keys)
    lines = ",\n".join(f"  {_definition(column)}" for column in table.columns)
    hashed = f"HASH({', '.join(f'`{name}`' for name in table.distribution)})"
    distribution = f"DISTRIBUTED BY {hashed if table.distribution else 'RANDOM'}"
    distribution += f" BUCKETS {table.buckets}" if table.buckets else ""
    properties = {"compression": "LZ4", "fast_schema_evolution": "true", "replication_num": "1", **table.properties}
    text = ",\n".join(f'"{name}" = "{value}"' for name, value in sorted(properties.items()))
    comment = f"COMMENT {_quoted(table.comment)}\n" if table.comment else ""
    model = "PRIMARY" if table.primary else "DUPLICATE"
    return (
        f"CREATE TABLE `{table.name}` (\n{lines}\n) ENGINE=OLAP \n{model} KEY({keys})\n{comment}{distribution} \n"
        f"PROPERTIES (\n{text}\n);"
    )


def _definition(column: Column) -> str:
    parts = [f"`{column.name}` {column.type} {'NULL' if column.nullable else 'NOT NULL'}"]
    if column.default is not None:
        parts.append("DEFAULT " + (NOW if column.default == NOW else _quoted(column.default)))
    parts.append(f"COMMENT {_quoted(column.comment)}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _described(column: Column) -> Sequence[object]:
    null = "YES" if column.nullable else "NO"
    return column.name, str(column.type), null, "true" if column.key else "false", column.default, ""


def _job(job: Job) -> Sequence[object]:
    created, finished = text_of(job.create_ms), text_of(job.finish_ms or None)
    progress = "0%" if job.state == "RUNNING" else None
    return (
        job.id, job.table, created, finished, job.table, job.id + 1, job.table_id, "1:0", job.boundary, job.state,
        job.message, progress, job.timeout_s,
    )  # fmt: skip


def _narrow(source: Parser, rows: Rows) -> None:
    """WHERE name = value AND ..., ORDER BY name, LIMIT n."""
    if source.take("WHERE"):
        _condition(source, rows)
        while source.take("AND"):
            _condition(source, rows)
    if source.take("ORDER", "BY"):
        at = _index(rows, source.name())
        down = source.take("DESC")
        if not down:
            source.take("ASC")
        rows.rows.sort(key=lambda row: (row[at] is not None, row[at]), reverse=down)
    if source.take("LIMIT"):
        rows.rows = rows.rows[: source.integer()]


def _condition(source: Parser, rows: Rows) -> None:
    at = _index(rows, source.name())
    source.need("=")
    wanted = source.next().text
    rows.rows = [row for row in rows.rows if str(row[at]) == wanted]


def _index(rows: Rows, name: str) -> int:
    names = [it.lower() for it in rows.names]
    if name.lower() not in names:
        raise analyzing(f"Unknown column '{name}'")
    return names.index(name.lower())
