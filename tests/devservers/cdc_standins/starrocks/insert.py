"""INSERT INTO t (a, b) SELECT ...: rows of one table into another, visible when the statement ends."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from cdc_standins.sql_text import Parser, quoted
from cdc_standins.starrocks.errors import analyzing, denied, refused
from cdc_standins.starrocks.schema import Column
from cdc_standins.starrocks.select import Select
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.statements import Who, read_name


class Insert:
    """Runs what follows `INSERT INTO` for one stand-in."""

    def __init__(self, services: Services, select: Select) -> None:
        self._services, self._select = services, select

    def run(self, source: Parser, who: Who) -> int:
        """Copy the rows; a key that is there already gets the new row. Raises SqlError, and nothing is changed then."""
        database, name = read_name(source, who)
        catalog = self._services.catalog
        with catalog.lock:
            table = catalog.table(database, name)
            if not self._services.users.allowed(who.user, "INSERT", database, name):
                raise denied(f"you need (at least one of) the INSERT privilege(s) on TABLE {name} for this operation.")
            names = source.names() if source.sees("(") else [column.name for column in table.columns]
            columns = [column for item in names if (column := table.column(item)) is not None]
            if len(columns) != len(names):
                raise analyzing(f"Unknown column in the list of '{name}'")
            query = self._select.to_duckdb(source.rest(), who)
            targets = ", ".join(quoted(column.staged) for column in columns)
            rows = f"(SELECT * FROM ({query}) q({targets}))"
            keys = [column.staged for column in table.keys] if table.primary else []
            required = [column.staged for column in table.columns if not column.nullable and column.default is None]
            try:
                self._check(rows, required, {column.staged for column in columns})
                self._check_lengths(rows, columns)
                self._services.data.execute(*_statements(f"main.{quoted(table.physical)}", targets, rows, keys))
            except duckdb.Error as error:
                raise analyzing(str(error).partition("\n")[0]) from error
        return 0

    def _check(self, rows: str, required: list[str], given: set[str]) -> None:
        for name in required:
            if name not in given:
                raise analyzing("a column without default has no value in the INSERT")
            _, found = self._services.data.query(f"SELECT 1 FROM {rows} WHERE {quoted(name)} IS NULL LIMIT 1", "main")
            if found:
                raise refused("Insert has filtered data in strict mode, NULL value in non-nullable column")

    def _check_lengths(self, rows: str, columns: Sequence[Column]) -> None:
        for column in columns:
            if column.type.length:
                name = quoted(column.staged)
                size = (
                    f"octet_length({name})" if column.type.name == "VARBINARY" else f"strlen(CAST({name} AS VARCHAR))"
                )
                longer = f"{size} > {column.type.length}"
                _, found = self._services.data.query(f"SELECT 1 FROM {rows} WHERE {longer} LIMIT 1", "main")
                if found:
                    raise refused(f"Insert has filtered data in strict mode, a string too long for '{column.name}'")


def _statements(target: str, targets: str, rows: str, keys: list[str]) -> list[str]:
    if not keys:
        return [f"INSERT INTO {target} ({targets}) FROM {rows}"]
    names = ", ".join(quoted(key) for key in keys)
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
    return [
        f"DELETE FROM {target} t USING {rows} s WHERE {same}",
        f"INSERT INTO {target} ({targets}) SELECT DISTINCT ON ({names}) * FROM {rows}",
    ]
