"""A small, known workload for crash tests: a table with a key and one without, both with every kind of change."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType

from cdc_process import Pipeline, present_end

from cdc_services.server import MySqlServer

Row = tuple[object, ...]

_LAST = "the last of its round"


@dataclass
class SmallWorkload:
    """Two tables in a database of their own; each `round` is a few transactions over both."""

    server: MySqlServer
    database: str
    beginning: dict[str, object]
    """Options of a source that starts right before the tables were made: it has no log of others to run through."""
    rounds: int = 0
    tables: list[str] = field(default_factory=lambda: ["keyed", "keyless"])

    @classmethod
    def on(cls, server: MySqlServer) -> SmallWorkload:
        work = cls(server, server.new_database("crash"), present_end(server))
        work.run(
            "CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, round INT, note VARCHAR(40), amount DECIMAL(9,2))",
            "CREATE TABLE keyless (round INT, note VARCHAR(40), happened DATETIME(3))",
        )
        return work

    @property
    def pattern(self) -> str:
        return rf"{self.database}.\.*"

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def round(self, rows: int = 20) -> int:
        """Inserts, updates, deletes, equal rows without a key, a rollback. Returns the round's number."""
        self.rounds += 1
        number = self.rounds
        keyed = ", ".join(f"({number}, 'note {i}', {i}.25)" for i in range(rows))
        keyless = ", ".join(f"({number}, 'note {i % 3}', '2026-11-21 10:00:00.{i % 2:03}')" for i in range(rows))
        self.run(
            "BEGIN",
            f"INSERT INTO keyed (round, note, amount) VALUES {keyed}",
            f"INSERT INTO keyless (round, note, happened) VALUES {keyless}",
            "COMMIT",
            f"UPDATE keyed SET amount = amount + 1, note = CONCAT(note, '+') WHERE id % 3 = {number % 3}",
            f"UPDATE keyless SET note = 'twice' WHERE round = {number} LIMIT 4",
            "DELETE FROM keyless WHERE note = 'note 1' LIMIT 3",
            f"DELETE FROM keyed WHERE round < {number} AND id % 7 = {number % 7}",
            "BEGIN",
            "INSERT INTO keyed (round, note) VALUES (-1, 'rolled back')",
            "ROLLBACK",
            f"INSERT INTO keyed (round, note) VALUES ({number}, '{_LAST}')",
        )
        return number

    def change_columns(self) -> None:
        """A schema change with rows after it."""
        name = f"c{self.rounds}"
        self.run(f"ALTER TABLE keyed ADD COLUMN {name} INT DEFAULT 7", f"ALTER TABLE keyless ADD COLUMN {name} INT")
        self.run(f"UPDATE keyed SET {name} = 8 WHERE id % 2 = 0", f"UPDATE keyless SET {name} = 9 LIMIT 5")

    def seen(self, number: int) -> str:
        """A query that is true when the whole round has arrived, or a later one: each deletes rows of those before."""
        return f"SELECT count(*) > 0 FROM {self.database}.keyed WHERE round >= {number} AND note LIKE '{_LAST}%'"

    def assert_equal(self, pipeline: Pipeline) -> None:
        """Every row is there once, in both tables."""
        for table in self.tables:
            columns = self._columns(table)
            names = ", ".join(columns)
            source = self.server.execute(f"SELECT {names} FROM {self.database}.{table}")
            sink = pipeline.query(f"SELECT {names} FROM {self.database}.{table}")
            assert sorted(map(repr, sink)) == sorted(map(repr, source)), table

    def _columns(self, table: str) -> list[str]:
        rows = self.server.execute(
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{self.database}' AND table_name = '{table}'"
        )
        return [str(name) for (name,) in rows]


class Writing:
    """Rounds of a workload in a thread of their own, as many as were asked for: a slow machine gets no more to do than
    a fast one. `alter_every`: after so many rounds the tables get another column; 0: never."""

    def __init__(self, work: SmallWorkload, alter_every: int = 0) -> None:
        self._work, self._alter_every = work, alter_every
        self._enough, self._asked = threading.Event(), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._write)

    def more(self, rounds: int) -> None:
        """Write so many rounds more, beginning now."""
        self._asked.release(rounds)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enough.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._enough.is_set():
            if self._asked.acquire(timeout=0.05):
                self._work.round(10)
                if self._alter_every and self._work.rounds % self._alter_every == 0:
                    self._work.change_columns()
