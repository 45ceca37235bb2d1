"""`cdc init mysql://...`: drafts the source block of a pipeline for a server. Changes nothing there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from cdc.draft import Draft, Key, ServerUrl
from cdc.finding import Level
from cdc.schema import TableId
from connectors.mysql.examine import examine
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import NOT_CAPTURED, read_tables
from connectors.mysql.server.server_check import BEYOND
from connectors.mysql.server.server_info import query, server_info

PORT = 3306
PASSWORD = "${DB_PASSWORD}"
_LISTED = 40
_SIZES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES "
    "WHERE TABLE_SCHEMA NOT IN ({}) ORDER BY 4 DESC"
)
_SIMPLE = re.compile(r"\w+")


def draft(server: ServerUrl, more: Mapping[str, str]) -> Draft:
    """Draft a source. Raises SourceError when the server cannot be reached."""
    tables = f"{_pattern(server.database)}.\\.*" if server.database else "\\.*.\\.*"
    username = (server.username or "root").replace("${", "$${")
    given = {"hostname": server.hostname, "port": str(server.port or PORT), "username": username}
    login = {"username": server.username or "root", "password": server.password}
    options = MySqlSourceOptions.model_validate({"type": "mysql", **given, **login, "tables": tables, **more})
    streams = Streams(options)
    with streams.session() as connection:
        info = server_info(connection)
        known = read_tables(connection, options.pattern.matches)
        keyless = {table for table, definition in known.items() if not definition.primary_key}
        listed = tuple(_listed(connection, set(known), keyless))
    found = tuple(each for each in examine(streams.session, lambda: options, None) if each.level is not Level.OK)
    keys = [Key(name, value) for name, value in given.items()]
    keys.append(Key("password", PASSWORD, ("From the environment: the file holds no secret.",)))
    keys += [Key(name, value) for name, value in more.items() if name not in given]
    keys.append(Key("tables", tables, listed))
    name = "MariaDB" if info.mariadb else "MySQL"
    databases = tuple(sorted({table.database for table in known})) or ((server.database,) if server.database else ())
    return Draft(f"{name} {info.version} at {given['hostname']}:{given['port']}", tuple(keys), found, databases)


def _listed(connection: MySqlConnection, known: set[TableId], keyless: set[TableId]) -> Iterator[str]:
    """List the largest tables, one per line."""
    rows = [
        (table, int(count or 0), int(size or 0))
        for database, name, count, size in query(connection, _SIZES.format(NOT_CAPTURED), slow=True)
        if (table := TableId(str(database), str(name))) in known
    ]
    total = sum(size for _, _, size in rows)
    if not rows:
        yield "No table yet: a run needs one to begin with; those that are created later are captured, too."
        return
    yield f"{len(rows)} table{'' if len(rows) == 1 else 's'}, about {_size(total)}; the largest:"
    yield from _lines(rows[:_LISTED], keyless)
    if len(rows) > _LISTED:
        yield f"  and {len(rows) - _LISTED} more"


def _lines(rows: Sequence[tuple[TableId, int, int]], keyless: set[TableId]) -> Iterator[str]:
    width = max((len(str(table)) for table, _, _ in rows), default=0)
    for table, count, size in rows:
        key = "  no primary key" if table in keyless else ""
        yield f"  {table!s:<{width}}  about {count} rows, {_size(size)}{key}"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _pattern(database: str) -> str:
    """Return a pattern that matches only this database name, as the server stores it."""
    database = BEYOND.sub("?", database)
    return database if _SIMPLE.fullmatch(database) else re.escape(database)
