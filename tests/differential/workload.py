"""A random, seeded workload against a real server: rows of every type, transactions, and schema changes between.

One seed gives one sequence of statements. The server may refuse some (a duplicate key, a value that no longer fits):
that is part of the workload, as the server alone says what is true in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pymysql
from column_kinds import Kind, kinds_of
from pymysql.connections import Connection

from cdc_services.server import MySqlServer

_SYNTAX = frozenset({1064, 1054, 1146, 1305})
"""Errors that mean that the generator, not the data, is wrong: syntax, unknown column, table or function."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the model; `generated` columns get no values."""

    name: str
    kind: Kind
    nullable: bool = True
    generated: str = ""

    @property
    def sql(self) -> str:
        if self.generated:
            return f"`{self.name}` {self.kind.declaration} {self.generated}"
        # TIMESTAMP columns say NULL themselves: without it old servers make the first one NOT NULL.
        null = "" if self.nullable else " NOT NULL"
        return f"`{self.name}` {self.kind.declaration.removesuffix(' NULL') if null else self.kind.declaration}{null}"


@dataclass
class Table:
    """A table as the generator knows it. `key` names columns; empty without a primary key."""

    database: str
    name: str
    columns: list[Column]
    key: tuple[str, ...]
    engine: str = "InnoDB"
    extra: str = ""

    @property
    def sql(self) -> str:
        return f"`{self.database}`.`{self.name}`"

    @property
    def definition(self) -> str:
        parts = [column.sql for column in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(f'`{name}`' for name in self.key)})")
        return f"CREATE TABLE {self.sql} ({', '.join(parts)}{self.extra}) ENGINE={self.engine}"

    @property
    def plain(self) -> list[Column]:
        """Columns that take values."""
        return [column for column in self.columns if not column.generated]

    def copy(self, name: str) -> Table:
        return replace(self, name=name, columns=list(self.columns))


@dataclass
class Workload:
    """Runs steps on a server. `log` holds every statement with the server's answer, for a reproduction."""

    server: MySqlServer
    databases: list[str]
    seed: int
    log: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.kinds = kinds_of(self.server.flavor)
        self.tables: list[Table] = []
        self._serial = 0
        self._connection: Connection[Any] | None = None

    # Running

    def connect(self) -> None:
        """A new session, so that global settings hold; its own time zone, as values must not depend on it."""
        self.close()
        self._connection = self.server.connect()
        self.sql("SET sql_mode = 'ALLOW_INVALID_DATES'")
        self.sql(f"SET time_zone = '{self.rng.choice(['+00:00', '+05:30', '-11:00'])}'")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def sql(self, statement: str) -> bool:
        """Run a statement; False when the server refused it for its data."""
        assert self._connection is not None
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
        except pymysql.MySQLError as error:
            self.log.append(f"{statement};  -- {error.args}")
            if error.args[0] in _SYNTAX:
                raise AssertionError(f"the generator wrote a wrong statement: {statement[:2000]}: {error}") from error
            self.done[f"refused {error.args[0]}"] += 1
            return False
        self.log.append(f"{statement};")
        return True

    def steps(self, number: int) -> None:
        """Run steps, each one transaction or one schema change."""
        for _ in range(number):
            step = self.rng.choices([step for step, _ in _STEPS], [weight for _, weight in _STEPS])[0]
            self.done[step.__name__.strip("_")] += 1
            step(self)

    # Tables

    def create(self, kinds: list[Kind], key: tuple[Kind, ...], *, engine: str = "InnoDB", extra: str = "") -> Table:
        keys = [Column(self.name("k"), kind, nullable=False) for kind in key]
        columns = [Column(self.name("c"), kind, nullable=self.rng.random() < 0.85) for kind in kinds]
        table = Table(
            self.rng.choice(self.databases), self.name("t"), keys + columns, tuple(c.name for c in keys), engine, extra
        )
        if self.sql(table.definition):
            self.tables.append(table)
        return table

    def create_random(self) -> Table:
        keys = [kind for kind in self.kinds if kind.key]
        key = tuple(self.rng.sample(keys, self.rng.choice([0, 1, 1, 1, 2, 3])))
        return self.create(self.rng.sample(self.kinds, self.rng.randint(2, 12)), key)

    def create_all_kinds(self, parts: int) -> None:
        """Tables that hold every type between them, every key type once as the key, and all types without a key."""
        shuffled = self.rng.sample(self.kinds, len(self.kinds))
        integer = next(kind for kind in self.kinds if kind.declaration == "INT UNSIGNED")
        for part in range(parts):
            self.create(shuffled[part::parts], (integer,))
            self.create(shuffled[part::parts], ())
        for kind in self.kinds:
            if kind.key:
                self.create(self.rng.sample(self.kinds, 2), (kind,))
        self.create_generated()

    def create_generated(self) -> None:
        integer = next(kind for kind in self.kinds if kind.declaration == "INT")
        number, text = Column(self.name("k"), integer, False), Column(self.name("c"), self.kind("VARCHAR(20)"))
        columns = [
            number,
            Column(self.name("g"), self.kind("BIGINT"), generated=f"AS (`{number.name}` * 2) STORED"),
            text,
            Column(self.name("g"), self.kind("VARCHAR(300)"), generated=f"AS (CONCAT(`{text.name}`, '!')) VIRTUAL"),
            Column(self.name("c"), self.kind("DATE")),
        ]
        for key in ((number.name,), ()):
            table = Table(self.databases[0], self.name("t"), list(columns), key)
            if self.sql(table.definition):
                self.tables.append(table)

    def kind(self, declaration: str) -> Kind:
        return next(kind for kind in self.kinds if kind.declaration == declaration)

    def name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def table(self) -> Table:
        return self.rng.choice(self.tables)

    # Pieces of statements

    def value(self, column: Column) -> str:
        return "NULL" if column.nullable and self.rng.random() < 0.15 else column.kind.literal(self.rng)

    def rows(self, table: Table, number: int) -> str:
        names = ", ".join(f"`{column.name}`" for column in table.plain)
        rows = ("(" + ", ".join(self.value(column) for column in table.plain) + ")" for _ in range(number))
        return f"({names}) VALUES {', '.join(rows)}"

    def some(self, table: Table) -> str:
        """A condition that holds for some rows."""
        column = self.rng.choice(table.columns)
        modulus = self.rng.choice([2, 3, 5])
        return f"CRC32(COALESCE(HEX(`{column.name}`), 'x')) % {modulus} = {self.rng.randrange(modulus)}"

    def assignments(self, table: Table) -> str:
        free = [column for column in table.plain if column.name not in table.key]
        chosen = self.rng.sample(free, min(len(free), self.rng.randint(1, 4)))
        return ", ".join(f"`{column.name}` = {self.value(column)}" for column in chosen)

    # Changes of rows

    def insert(self, table: Table) -> None:
        ignore = "IGNORE " if self.rng.random() < 0.7 else ""
        self.sql(f"INSERT {ignore}INTO {table.sql} {self.rows(table, self.rng.choice([1, 1, 2, 5, 20]))}")

    def update(self, table: Table) -> None:
        if len(table.plain) > len(table.key):
            limit = self.rng.choice(["", " LIMIT 1", " LIMIT 3"])
            self.sql(f"UPDATE IGNORE {table.sql} SET {self.assignments(table)} WHERE {self.some(table)}{limit}")

    def delete(self, table: Table) -> None:
        self.sql(f"DELETE FROM {table.sql} WHERE {self.some(table)}{self.rng.choice(['', ' LIMIT 1', ' LIMIT 2'])}")

    def replace(self, table: Table) -> None:
        self.sql(f"REPLACE INTO {table.sql} {self.rows(table, self.rng.randint(1, 4))}")

    def upsert(self, table: Table) -> None:
        if len(table.plain) > len(table.key):
            rows = self.rows(table, self.rng.randint(1, 4))
            self.sql(f"INSERT INTO {table.sql} {rows} ON DUPLICATE KEY UPDATE {self.assignments(table)}")

    def change_key(self, table: Table) -> None:
        if table.key:
            column = next(c for c in table.columns if c.name == self.rng.choice(table.key) or c.name == table.key[0])
            self.sql(
                f"UPDATE IGNORE {table.sql} SET `{column.name}` = {self.value(column)} WHERE {self.some(table)} LIMIT 1"
            )

    def copy_rows(self, table: Table) -> None:
        names = ", ".join(f"`{column.name}`" for column in table.plain)
        self.sql(f"INSERT IGNORE INTO {table.sql} ({names}) SELECT {names} FROM {table.sql} LIMIT 3")

    def change_rows(self) -> None:
        changes = [self.insert] * 5 + [self.update] * 3 + [self.delete, self.replace, self.upsert, self.change_key]
        self.rng.choice([*changes, self.copy_rows])(self.table())


# Steps. Each is one transaction or one schema change.


def _rows(work: Workload) -> None:
    work.change_rows()


def _transaction(work: Workload) -> None:
    """Several tables, with savepoints; sometimes rolled back."""
    transactional = [table for table in work.tables if table.engine == "InnoDB"]
    before, work.tables = work.tables, transactional
    work.sql("BEGIN")
    for _ in range(work.rng.randint(1, 6)):
        if work.rng.random() < 0.25:
            work.sql("SAVEPOINT s")
            work.change_rows()
            work.change_rows()
            work.sql(work.rng.choice(["ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"]))
        work.change_rows()
    work.sql(work.rng.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
    work.tables = before


def _xa(work: Workload) -> None:
    work.sql("XA START 'x'")
    work.tables, before = [table for table in work.tables if table.engine == "InnoDB"], work.tables
    work.change_rows()
    work.tables = before
    work.sql("XA END 'x'")
    if work.rng.random() < 0.5:
        work.sql("XA COMMIT 'x' ONE PHASE")
    else:
        work.sql("XA PREPARE 'x'")
        work.sql("XA COMMIT 'x'")


def _position(work: Workload, table: Table) -> tuple[str, int]:
    """An ADD or MODIFY position and the index it means."""
    choice = work.rng.randrange(3)
    if choice == 0:
        return "", len(table.columns)
    if choice == 1:
        return " FIRST", 0
    index = work.rng.randrange(len(table.columns))
    return f" AFTER `{table.columns[index].name}`", index + 1


def _add_column(work: Workload) -> None:
    table = work.table()
    kind = work.rng.choice(work.kinds)
    column = Column(work.name("c"), kind, nullable=work.rng.random() < 0.6 or kind.declaration in _NO_EMPTY_VALUE)
    place, index = _position(work, table)
    default = ""
    if work.rng.random() < 0.4 and kind.declaration in _WITH_DEFAULT:
        default = f" DEFAULT {kind.literal(work.rng)}"
    if work.sql(f"ALTER TABLE {table.sql} ADD COLUMN {column.sql}{default}{place}"):
        table.columns.insert(index, column)


_WITH_DEFAULT = frozenset({
    "INT", "BIGINT UNSIGNED", "TINYINT", "DECIMAL(10,2)", "VARCHAR(20)", "CHAR(10)", "DATETIME(3)", "TIME(3)", "DATE",
    "ENUM('a','b','it''s','é')", "YEAR", "BIT(7)", "DOUBLE", "VARBINARY(16)", "DECIMAL(65,30)",
})  # fmt: skip


_NO_EMPTY_VALUE = frozenset({"GEOMETRY", "POINT", "VECTOR(3)"})
"""NOT NULL columns of these get a value of no bytes in rows already there, which no geometry or vector has."""


def _free(work: Workload, table: Table) -> Column | None:
    """A column outside the key that no generated column uses."""
    if any(column.generated for column in table.columns):
        return None
    free = [column for column in table.columns if column.name not in table.key]
    return work.rng.choice(free) if len(free) > 1 else None


def _drop_column(work: Workload) -> None:
    table = work.table()
    column = _free(work, table)
    if column is not None and work.sql(f"ALTER TABLE {table.sql} DROP COLUMN `{column.name}`"):
        table.columns.remove(column)


def _widen_column(work: Workload) -> None:
    table = work.table()
    wide = [column for column in table.columns if column.kind.wider and not column.generated]
    if not wide or any(column.generated for column in table.columns):
        return
    column = work.rng.choice(wide)
    assert column.kind.wider is not None
    new = replace(column, kind=replace(column.kind, declaration=column.kind.wider, wider=None))
    if work.rng.random() < 0.4:
        new = replace(new, name=work.name("c"))
        done = work.sql(f"ALTER TABLE {table.sql} CHANGE COLUMN `{column.name}` {new.sql}")
    else:
        done = work.sql(f"ALTER TABLE {table.sql} MODIFY COLUMN {new.sql}")
    if done:
        _put(table, column, new)


def _put(table: Table, old: Column, new: Column) -> None:
    table.columns[table.columns.index(old)] = new
    table.key = tuple(new.name if name == old.name else name for name in table.key)


def _move_column(work: Workload) -> None:
    table = work.table()
    column = _free(work, table)
    if column is None:
        return
    others = [other for other in table.columns if other is not column]
    after = work.rng.choice([None, *others])
    place = " FIRST" if after is None else f" AFTER `{after.name}`"
    if work.sql(f"ALTER TABLE {table.sql} MODIFY COLUMN {column.sql}{place}"):
        others.insert(0 if after is None else others.index(after) + 1, column)
        table.columns = others


def _rename_column(work: Workload) -> None:
    table = work.table()
    if any(column.generated for column in table.columns):
        return
    column = work.rng.choice(table.columns)
    new = replace(column, name=work.name("r"))
    if work.sql(f"ALTER TABLE {table.sql} RENAME COLUMN `{column.name}` TO `{new.name}`"):
        _put(table, column, new)


def _swap_columns(work: Workload) -> None:
    """Two columns exchange their names in one statement."""
    table = work.table()
    if any(column.generated for column in table.columns):
        return
    free = [column for column in table.columns if column.name not in table.key]
    if len(free) < 2:
        return
    a, b = work.rng.sample(free, 2)
    if work.sql(
        f"ALTER TABLE {table.sql} RENAME COLUMN `{a.name}` TO `{b.name}`, RENAME COLUMN `{b.name}` TO `{a.name}`"
    ):
        i, j = table.columns.index(a), table.columns.index(b)
        table.columns[i], table.columns[j] = replace(a, name=b.name), replace(b, name=a.name)


def _several_clauses(work: Workload) -> None:
    table = work.table()
    column = _free(work, table)
    if column is None:
        return
    new = Column(work.name("c"), work.kind("VARCHAR(20)"))
    other = Column(work.name("c"), work.kind("BIGINT"))
    statement = (
        f"ALTER TABLE {table.sql} ADD COLUMN {new.sql} FIRST, DROP COLUMN `{column.name}`, "
        f"ADD COLUMN ({other.sql}), COMMENT = 'changed', ADD INDEX ({f'`{other.name}`'})"
    )
    if work.sql(statement):
        table.columns.remove(column)
        table.columns = [new, *table.columns, other]


def _rename_table(work: Workload) -> None:
    table = work.table()
    new, database = work.name("t"), work.rng.choice(work.databases)
    how = work.rng.choice(["RENAME TABLE {old} TO {new}", "ALTER TABLE {old} RENAME TO {new}"])
    if work.sql(how.format(old=table.sql, new=f"`{database}`.`{new}`")):
        table.database, table.name = database, new


def _swap_tables(work: Workload) -> None:
    if len(work.tables) < 2:
        return
    a, b = work.rng.sample(work.tables, 2)
    temporary = f"`{a.database}`.`{work.name('tmp')}`"
    if work.sql(f"RENAME TABLE {a.sql} TO {temporary}, {b.sql} TO {a.sql}, {temporary} TO {b.sql}"):
        a.database, a.name, b.database, b.name = b.database, b.name, a.database, a.name


def _truncate(work: Workload) -> None:
    work.sql(f"TRUNCATE TABLE {work.table().sql}")


def _drop_and_create(work: Workload) -> None:
    table = work.table()
    if work.sql(f"DROP TABLE {table.sql}"):
        work.tables.remove(table)
        if work.rng.random() < 0.5 and work.sql(table.definition):
            work.tables.append(table)
        else:
            again = work.create_random()
            work.insert(again) if again in work.tables else None


def _create(work: Workload) -> None:
    if len(work.tables) < 40:
        work.create_random()


def _create_like(work: Workload) -> None:
    table = work.table()
    like = table.copy(work.name("t"))
    if work.sql(f"CREATE TABLE {like.sql} LIKE {table.sql}"):
        work.tables.append(like)
        names = ", ".join(f"`{column.name}`" for column in table.plain)
        work.sql(f"INSERT INTO {like.sql} ({names}) SELECT {names} FROM {table.sql}")


def _create_select(work: Workload) -> None:
    table = work.table()
    columns = [replace(column, generated="") for column in table.columns]
    copied = Table(table.database, work.name("t"), columns, ())
    if work.sql(f"CREATE TABLE {copied.sql} AS SELECT * FROM {table.sql} LIMIT 5"):
        work.tables.append(copied)


def _change_key(work: Workload) -> None:
    """Drop the key, or set another one; two clauses in one statement, as tools write it."""
    table = work.table()
    if any(column.generated for column in table.columns):
        return
    can = [column for column in table.columns if column.kind.key and not column.nullable]
    new = tuple(column.name for column in work.rng.sample(can, min(len(can), work.rng.choice([0, 1, 2]))))
    clauses = ["DROP PRIMARY KEY"] if table.key else []
    if new:
        clauses.append(f"ADD PRIMARY KEY ({', '.join(f'`{name}`' for name in new)})")
    if clauses and work.sql(f"ALTER TABLE {table.sql} {', '.join(clauses)}"):
        table.key = new


def _harmless(work: Workload) -> None:
    """Statements in the log that change no column."""
    table = work.table()
    work.sql(work.rng.choice([
        f"ANALYZE TABLE {table.sql}", f"ALTER TABLE {table.sql} ENGINE={table.engine}", f"OPTIMIZE TABLE {table.sql}",
        f"ALTER TABLE {table.sql} COMMENT = 'it''s; -- x'", "FLUSH STATUS",
        f"CREATE OR REPLACE VIEW `{table.database}`.v AS SELECT 1 AS a",
        f"/* a comment */ ALTER TABLE {table.sql} ROW_FORMAT=DYNAMIC /*!50100 COMMENT = 'v' */",
        f"DROP TABLE IF EXISTS `{table.database}`.nothing_there", f"CREATE TABLE IF NOT EXISTS {table.sql} (x INT)",
    ]))  # fmt: skip


def _convert_charset(work: Workload) -> None:
    """Every text column of the table gets another charset; values stay, as both hold all of Unicode.

    Tables with an ENUM are left out: MariaDB 10.11 empties its values on the way to UTF-16.
    """
    table = work.table()
    avoided = ("CHARACTER SET", "SET(", "ENUM(")
    if any(word in column.kind.declaration for column in table.columns for word in avoided):
        return
    work.sql(f"ALTER TABLE {table.sql} CONVERT TO CHARACTER SET {work.rng.choice(['utf8mb4', 'utf16', 'utf32'])}")


def _more_labels(work: Workload) -> None:
    """New labels at the end and in the middle of an ENUM: numbers in the log mean other labels from here on."""
    table = work.table()
    enums = [c for c in table.columns if c.kind.declaration.startswith("ENUM('a'") and not c.generated]
    if not enums:
        return
    column = work.rng.choice(enums)
    labels = column.kind.declaration.replace("'b'", f"'{work.name('new')}','b','{work.name('new')}'", 1)
    new = replace(column, kind=replace(column.kind, declaration=labels))
    if work.sql(f"ALTER TABLE {table.sql} MODIFY COLUMN {new.sql}"):
        _put(table, column, new)


def _temporary_table(work: Workload) -> None:
    name = f"`{work.databases[0]}`.`{work.name('temporary')}`"
    work.sql(f"CREATE TEMPORARY TABLE {name} (a INT)")
    work.sql(f"INSERT INTO {name} VALUES (1)")
    work.sql(f"DROP TEMPORARY TABLE {name}")


def _elsewhere(work: Workload) -> None:
    """Rows and definitions of a database that is not captured."""
    work.sql("CREATE TABLE IF NOT EXISTS elsewhere.t (a INT, b TEXT)")
    work.sql(f"INSERT INTO elsewhere.t VALUES ({work.rng.randint(1, 9)}, REPEAT('x', {work.rng.randint(1, 9999)}))")


_STEPS: tuple[tuple[Callable[[Workload], None], int], ...] = (
    (_rows, 40), (_transaction, 20), (_xa, 2), (_add_column, 4), (_drop_column, 2), (_widen_column, 4),
    (_move_column, 2), (_rename_column, 2), (_swap_columns, 1), (_several_clauses, 1), (_rename_table, 1),
    (_swap_tables, 1), (_truncate, 1), (_drop_and_create, 1), (_create, 1), (_create_like, 1), (_create_select, 1),
    (_change_key, 2), (_harmless, 2), (_convert_charset, 1), (_more_labels, 1), (_temporary_table, 1), (_elsewhere, 3),
)  # fmt: skip
