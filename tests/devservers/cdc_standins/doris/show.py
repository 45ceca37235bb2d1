"""SHOW statements and DESCRIBE."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cdc_standins.clock import text_of
from cdc_standins.doris.catalog import Column, Table
from cdc_standins.doris.engine import Engine
from cdc_standins.doris.errors import sql_error
from cdc_standins.sql_server import Result, text_result
from cdc_standins.sql_text import Parser

_JOB = (
    "JobId", "TableName", "CreateTime", "FinishTime", "IndexName", "IndexId", "OriginIndexId", "SchemaVersion",
    "TransactionId", "State", "Msg", "Progress", "Timeout",
)  # fmt: skip


def show(engine: Engine, parser: Parser, db: str, user: str) -> Result:
    """SHOW of all kinds known here. Raises SqlError, Unparsable."""
    parser.need("SHOW")
    if parser.take("DATABASES"):
        names = [
            one for one in engine.catalog.databases() if one == "information_schema" or engine.accounts.sees(user, one)
        ]
        return _listed("Database", names, parser)
    if parser.take("TABLES"):
        db = _from(parser, db)
        engine.catalog.need_database(db)
        names = [one.name for one in engine.catalog.tables(db) if engine.accounts.sees(user, db, one.name)]
        return _listed(f"Tables_in_{db}", names, parser)
    if parser.take("FULL", "COLUMNS"):
        return show_columns(_table(engine, parser, db, user), full=True)
    if parser.take("COLUMNS"):
        return show_columns(_table(engine, parser, db, user), full=False)
    if parser.take("CREATE", "TABLE"):
        parts = parser.dotted()
        parser.end()
        table = engine.catalog.need(parts[0] if len(parts) == 2 else db, parts[-1])
        return text_result(("Table", "Create Table"), [(table.name, create_text(table))])
    if parser.take("ALTER", "TABLE", "COLUMN"):
        return _jobs(engine, parser, db)
    if parser.take("BACKENDS"):
        alive = str(engine.backend_alive()).lower()
        return text_result(("BackendId", "Host", "HttpPort", "Alive"), [(10001, "127.0.0.1", engine.be_port, alive)])
    raise parser.wrong("a SHOW statement that the stand-in knows")


def show_columns(table: Table, *, full: bool) -> Result:
    """SHOW [FULL] COLUMNS and DESCRIBE."""
    if not full:
        names: tuple[str, ...] = ("Field", "Type", "Null", "Key", "Default", "Extra")
        return text_result(names, [_column(one) for one in table.columns])
    names = ("Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment")
    rows = []
    for one in table.columns:
        name, kind, null, key, default, extra = _column(one)
        rows.append((name, kind, "", null, key, default, extra, "", one.comment))
    return text_result(names, rows)


def create_text(table: Table) -> str:
    """SHOW CREATE TABLE."""
    lines = [f"  `{one.name}` {_definition(one)}" for one in table.columns]
    model = "UNIQUE" if table.unique else "DUPLICATE"
    keys = ", ".join(f"`{one.name}`" for one in table.keys)
    hashed = f"HASH({', '.join(f'`{name}`' for name in table.hashed_by)})" if table.hashed_by else "RANDOM"
    properties = {"replication_allocation": "tag.location.default: 1"} | table.properties
    if table.unique:
        properties.setdefault("enable_unique_key_merge_on_write", "true")
    properties.setdefault("light_schema_change", "true")
    shown = ",\n".join(f'"{name}" = "{value}"' for name, value in properties.items())
    comment = f"\nCOMMENT '{table.comment}'" if table.comment else ""
    return (
        f"CREATE TABLE `{table.name}` (\n" + ",\n".join(lines) + f"\n) ENGINE=OLAP\n{model} KEY({keys}){comment}\n"
        f"DISTRIBUTED BY {hashed} BUCKETS {table.buckets}\nPROPERTIES (\n{shown}\n);"
    )


def _definition(one: Column) -> str:
    text = f"{one.type} {'NULL' if one.nullable else 'NOT NULL'}"
    if one.default is not None:
        text += " DEFAULT CURRENT_TIMESTAMP" if one.default == "CURRENT_TIMESTAMP" else f' DEFAULT "{one.default}"'
    return text + (f" COMMENT '{one.comment}'" if one.comment else "")


def _column(one: Column) -> tuple[Any, ...]:
    extra = "" if one.is_key else "NONE"
    return (
        one.name,
        str(one.type),
        "Yes" if one.nullable else "No",
        "true" if one.is_key else "false",
        one.default,
        extra,
    )


def _listed(title: str, names: list[str], parser: Parser) -> Result:
    parser.end()
    return text_result((title,), [(name,) for name in names])


def _from(parser: Parser, db: str) -> str:
    if parser.take("FROM") or parser.take("IN"):
        return parser.dotted()[-1]
    if not db:
        raise sql_error("No database selected", 1046, "3D000")
    return db


def _table(engine: Engine, parser: Parser, db: str, user: str) -> Table:
    if not parser.take("FROM"):
        parser.need("IN")
    parts = parser.dotted()
    if len(parts) == 1 and (parser.take("FROM") or parser.take("IN")):
        parts = (parser.name(), parts[0])
    parser.end()
    in_db = parts[-2] if len(parts) > 1 else db
    if not in_db:
        raise sql_error("No database selected", 1046, "3D000")
    table = engine.catalog.need(in_db, parts[-1])
    if not engine.accounts.sees(user, table.db, table.name):
        raise sql_error(f"Access denied; you need the SHOW privilege for table '{table.name}'", 1227, "42000")
    return table


def _conditions(parser: Parser) -> dict[str, str]:
    found: dict[str, str] = {}
    if parser.take("WHERE"):
        while True:
            name = parser.name().lower()
            parser.need("=")
            found[name] = parser.next().text
            if not parser.take("AND"):
                break
    return found


def _jobs(engine: Engine, parser: Parser, db: str) -> Result:
    db = _from(parser, db) if parser.sees("FROM") or parser.sees("IN") or not db else db
    wanted = _conditions(parser)
    descending, limit = False, None
    if parser.take("ORDER", "BY"):
        parser.need("CREATETIME")
        descending = parser.take("DESC")
    if parser.take("LIMIT"):
        limit = parser.integer()
    parser.end()
    engine.catalog.need_database(db)
    rows = []
    for job in engine.jobs.listed(db):
        known = asdict(job)
        if wanted.get("tablename", job.table) != job.table or wanted.get("state", job.state) != job.state:
            continue
        progress = "N/A"
        rows.append((
            job.id, job.table, text_of(job.created_ms), text_of(known["finished_ms"]), job.table, job.table_id,
            job.table_id, "1:0", job.txn, job.state, job.message, progress, 2592000,
        ))  # fmt: skip
    rows = rows[::-1] if descending else rows
    return text_result(_JOB, rows[:limit] if limit is not None else rows)
