"""Databases and tables of the stand-in: frozen values in memory, each change durable before it is answered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.types import DorisType, from_json
from cdc_standins.journal import Journal
from cdc_standins.sql_text import literal

DELETE_SIGN = "__DORIS_DELETE_SIGN__"
NOW = "CURRENT_TIMESTAMP"
SYSTEM = ("information_schema", "mysql", "__internal_schema")


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `uid` never changes, also over renames; `default` is text, `NOW` the current time."""

    name: str
    type: DorisType
    uid: int
    is_key: bool = False
    nullable: bool = True
    default: str | None = None
    comment: str = ""

    @property
    def stored(self) -> str:
        """Its name in the physical table."""
        return f"c{self.uid}"

    @property
    def default_sql(self) -> str:
        """The default as DuckDB computes it."""
        if self.default is None:
            return "NULL"
        value = "localtimestamp" if self.default == NOW else literal(self.default)
        return f"CAST({value} AS {self.type.duck})"

    @property
    def takes_default(self) -> bool:
        """Whether a load may leave it out."""
        return self.nullable or self.default is not None

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "name": self.name, "type": self.type.to_json(), "uid": self.uid, "is_key": self.is_key,
            "nullable": self.nullable, "default": self.default, "comment": self.comment,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `generation` changes when its rows are thrown away; `busy` while a schema change job works on it."""

    id: int
    db: str
    name: str
    columns: tuple[Column, ...]
    unique: bool
    hashed_by: tuple[str, ...]
    buckets: str
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    generation: int = 0
    next_uid: int = 0
    busy: bool = False

    @property
    def stored(self) -> str:
        """The physical table's name."""
        return f"t{self.id}_{self.generation}"

    @property
    def keys(self) -> tuple[Column, ...]:
        """Its key columns."""
        return tuple(column for column in self.columns if column.is_key)

    @property
    def light(self) -> bool:
        """Whether simple schema changes happen at once."""
        return self.properties.get("light_schema_change", "true") == "true"

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "id": self.id, "db": self.db, "name": self.name, "columns": [one.to_json() for one in self.columns],
            "unique": self.unique, "hashed_by": list(self.hashed_by), "buckets": self.buckets,
            "properties": self.properties, "comment": self.comment, "generation": self.generation,
            "next_uid": self.next_uid, "busy": self.busy,
        }  # fmt: skip


def _table(document: dict[str, Any]) -> Table:
    columns = tuple(Column(**{**one, "type": from_json(one["type"])}) for one in document["columns"])
    return Table(**{**document, "columns": columns, "hashed_by": tuple(document["hashed_by"])})


class Catalog:
    """All databases and tables. Hold `lock` over a change that looks first."""

    def __init__(self, journal: Journal) -> None:
        self.lock = threading.RLock()
        self._journal = journal
        self._databases: dict[str, int] = journal.all("database")
        self._tables = {int(key): _table(document) for key, document in journal.all("table").items()}
        self._names = {(table.db, table.name): table.id for table in self._tables.values()}

    def databases(self) -> list[str]:
        """Names, sorted, the system's too."""
        return sorted([*self._databases, *SYSTEM])

    def own_databases(self) -> list[str]:
        """Names of the databases that users made."""
        return sorted(self._databases)

    def has_database(self, db: str) -> bool:
        """Whether there is one of that name; case counts."""
        return db in self._databases or db in SYSTEM

    def need_database(self, db: str) -> None:
        """SqlError 1049 when there is no such database."""
        if not self.has_database(db):
            raise sql_error(f"Unknown database '{db}'", 1049, "42000")

    def add_database(self, db: str) -> None:
        """A new database; it must not exist."""
        with self.lock:
            number = self._journal.next_number("id", 10001)
            self._journal.put("database", db, number)
            self._databases[db] = number

    def drop_database(self, db: str) -> None:
        """The database, which must be empty by now."""
        with self.lock:
            self._journal.remove("database", db)
            del self._databases[db]

    def database_id(self, db: str) -> int:
        """Its number."""
        return self._databases[db]

    def tables(self, db: str | None = None) -> list[Table]:
        """Tables, of one database or all, by name."""
        found = [table for table in list(self._tables.values()) if db is None or table.db == db]
        return sorted(found, key=lambda table: (table.db, table.name))

    def find(self, db: str, name: str) -> Table | None:
        """A table by name; case counts."""
        number = self._names.get((db, name))
        return None if number is None else self._tables[number]

    def by_id(self, number: int) -> Table | None:
        """A table by its number, or None when it is gone."""
        return self._tables.get(number)

    def need(self, db: str, name: str) -> Table:
        """A table; SqlError when database or table do not exist."""
        self.need_database(db)
        table = self.find(db, name)
        if table is None:
            raise sql_error(f"Unknown table '{name}'", 1051, "42S02")
        return table

    def new_id(self) -> int:
        """A number for a new table."""
        return self._journal.next_number("id", 10001)

    def put(self, table: Table) -> None:
        """A new table, or a table's new state."""
        with self.lock:
            self._journal.put("table", table.id, table.to_json())
            before = self._tables.get(table.id)
            if before is not None:
                self._names.pop((before.db, before.name), None)
            self._tables[table.id] = table
            self._names[table.db, table.name] = table.id

    def remove(self, table: Table) -> None:
        """A table that is dropped."""
        with self.lock:
            self._journal.remove("table", table.id)
            self._tables.pop(table.id, None)
            self._names.pop((table.db, table.name), None)

    def change(self, number: int, **values: Any) -> Table:
        """A table with some of its attributes changed."""
        with self.lock:
            table = replace(self._tables[number], **values)
            self.put(table)
            return table
