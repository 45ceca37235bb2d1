"""The rows of a stand-in: tables in one DuckDB file, prepared rows in Arrow files beside it until they are published.

A table here is physical: named by a number, its columns by numbers too, so that a rename touches only the view that
queries see, and rows prepared before a schema change still fit after it. Publishing and its memory (`published`) are
one DuckDB transaction, so a killed process publishes each transaction once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from cdc_standins.sql_text import literal, quoted

DELETE = "$delete"
"""The column of staged rows that says 1 for a row that deletes its key; tables without keys have none."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A physical column: its name, DuckDB type and default as text (None: NULL)."""

    name: str
    kind: str
    default: str | None = None

    def value(self, text: str | None) -> str:
        """`text` as a DuckDB expression of this column's type."""
        return "NULL" if text is None else f"CAST({literal(text)} AS {self.kind})"


@dataclass(frozen=True, slots=True)
class Publication:
    """Staged rows of one transaction on their way into a table.

    `keys` empty: rows are appended. Else each key's row replaces the one there is; at most one staged row per key.
    """

    txn: int
    table: str
    keys: tuple[str, ...] = ()


class Data:
    """Tables and staged rows in one folder; safe to use from many threads."""

    def __init__(self, folder: Path) -> None:
        self._staged = folder / "staged"
        self._staged.mkdir(exist_ok=True)
        self._lock = threading.RLock()
        self._db = duckdb.connect(str(folder / "data.duckdb"), config={"threads": 1})
        self._db.execute("CREATE TABLE IF NOT EXISTS main.published (txn BIGINT)")
        self._published = {row[0] for row in self._db.execute("SELECT txn FROM main.published").fetchall()}

    def execute(self, *statements: str, before_commit: Callable[[], None] | None = None) -> None:
        """Run statements as one transaction: all or none.

        `before_commit` runs when all went well. What it makes durable is kept if the process dies right after it though
        the transaction is not: whoever uses it puts that right at the next start.
        """
        with self._lock:
            self._db.execute("BEGIN")
            try:
                for statement in statements:
                    self._db.execute(statement)
                if before_commit is not None:
                    before_commit()
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def replace(self, schema: str, table: str, rows: pa.Table) -> None:
        """Make a table again, with exactly these rows."""
        with self._lock:
            self._db.register("replacing", rows)
            target = f"{quoted(schema)}.{quoted(table)}"
            try:
                self.execute(
                    f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}",
                    f"CREATE OR REPLACE TABLE {target} AS SELECT * FROM replacing",
                )
            finally:
                self._db.unregister("replacing")

    def create(self, table: str, columns: Sequence[StoredColumn]) -> None:
        """Make an empty physical table, instead of one that a killed process left half made."""
        items = ", ".join(f"{quoted(column.name)} {column.kind}" for column in columns)
        self.execute(f"CREATE OR REPLACE TABLE main.{quoted(table)} ({items})")

    def stage(self, txn: int, rows: pa.Table) -> None:
        """Keep the rows of a transaction durable and invisible."""
        with pa.OSFile(str(self.staged(txn)), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)

    def staged(self, txn: int) -> Path:
        """The file of a transaction's staged rows."""
        return self._staged / f"{txn}.arrow"

    def unstage(self, txn: int) -> None:
        """Remove the staged rows; nothing happens when there are none."""
        self.staged(txn).unlink(missing_ok=True)

    def staged_numbers(self) -> set[int]:
        """The transactions that have staged rows."""
        return {int(file.stem) for file in self._staged.glob("*.arrow")}

    def columns(self, table: str) -> dict[str, str]:
        """Physical columns of a table with their DuckDB types."""
        with self._lock:
            rows = self._db.execute(f"DESCRIBE main.{quoted(table)}").fetchall()
        return {row[0]: row[1] for row in rows}

    def everything(self) -> tuple[dict[str, dict[str, str]], set[tuple[str, str]]]:
        """Columns with their types of every physical table, and every view as (schema, name)."""
        with self._lock:
            rows = self._db.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' "
                "AND NOT internal AND table_name <> 'published' ORDER BY column_index"
            ).fetchall()
            views = self._db.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        tables: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            tables.setdefault(table, {})[column] = kind
        return tables, set(views)

    def publish(self, publications: Sequence[Publication], defaults: dict[str, dict[str, str]]) -> None:
        """Make staged rows visible, all in one transaction, in this order; what was published before is left out.

        `defaults`: by table, the value as SQL of columns that staged rows may lack (added since they were prepared).
        """
        new = [one for one in publications if one.txn not in self._published]
        if not new:
            return
        with self._lock:
            self._db.execute("BEGIN")
            try:
                for one in new:
                    self._put(one, defaults.get(one.table, {}))
                self._db.execute("INSERT INTO main.published SELECT unnest(?::BIGINT[])", [[one.txn for one in new]])
            except duckdb.Error:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
            self._published.update(one.txn for one in new)

    def forget_published(self, txns: Sequence[int]) -> None:
        """Drop the memory of publications whose transactions are final in the journal."""
        known = [txn for txn in txns if txn in self._published]
        if known:
            with self._lock:
                self._db.execute("DELETE FROM main.published WHERE list_contains(?::BIGINT[], txn)", [known])
                self._published.difference_update(known)

    def _put(self, one: Publication, defaults: dict[str, str]) -> None:
        with pa.memory_map(str(self.staged(one.txn))) as source:
            rows = pa.ipc.open_stream(source).read_all()
        if not rows.num_rows:
            return
        self._db.register("staged_rows", rows)
        try:
            self._replace(one, set(rows.column_names), defaults)
        finally:
            self._db.unregister("staged_rows")

    def _replace(self, one: Publication, present: set[str], defaults: dict[str, str]) -> None:
        """Put what is in `staged_rows` into the table, instead of what has the same keys."""
        target, actual = f"main.{quoted(one.table)}", self.columns(one.table)
        if one.keys:
            same = " AND ".join(f"t.{quoted(key)} IS NOT DISTINCT FROM {_typed(key, actual)}" for key in one.keys)
            self._db.execute(f"DELETE FROM {target} t USING staged_rows s WHERE {same}")
        values = {name: _typed(name, actual) if name in present else defaults.get(name, "NULL") for name in actual}
        where = f' WHERE s."{DELETE}" = 0' if DELETE in present else ""
        names = ", ".join(quoted(name) for name in values)
        self._db.execute(
            f"INSERT INTO {target} ({names}) SELECT {', '.join(values.values())} FROM staged_rows s{where}"
        )

    def tables_in(self, sql: str) -> set[str]:
        """Names of the tables that a query reads, as written and quoted where needed. Raises `duckdb.Error`."""
        with duckdb.connect() as empty:  # where no view is known that could be looked through
            names: set[str] = empty.get_table_names(sql, qualified=True)
            return names

    def query(
        self, sql: str, schema: str, extra: Mapping[str, pa.Table] | None = None
    ) -> tuple[list[tuple[str, str]], list[tuple[object, ...]]]:
        """Names with DuckDB types, and rows; `extra` tables can be read by name. Raises `duckdb.Error`."""
        with self._db.cursor() as cursor:
            for name, table in (extra or {}).items():
                cursor.register(name, table)
            cursor.execute(f"SET schema = {literal(quoted(schema))}")
            cursor.execute(sql)
            columns = [(str(item[0]), str(item[1])) for item in cursor.description or ()]
            return columns, cursor.fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def _typed(name: str, actual: dict[str, str]) -> str:
    return f"CAST(s.{quoted(name)} AS {actual[name]})"
