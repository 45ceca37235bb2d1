"""Two runs of one pipeline on a real server: the same batches and rows as alone, and one of them has read the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from servers import own_servers, source_of

from cdc.block import ChangeBlock
from cdc.source import Context, Limits, Offset, Siblings
from cdc.state.store import LocalStore
from cdc.testing.blocks import images
from cdc_services.server import StartedServer
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.sharing import decoded
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql
LIMITS = Limits(64 << 10, 1 << 20)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    with own_servers() as make:
        yield make(request.param)


@dataclass
class Reading:
    """One of the runs, batch by batch, up to the end of the log as it was when it was made."""

    source: MySqlSource
    at: Offset
    splits: int = 0

    def batch(self) -> list[ChangeBlock] | None:
        """The rows of the next batch; None at the end."""
        end = self.source.latest_offset(self.at, LIMITS, 0.0)
        if end == self.at:
            return None
        splits = self.source.splits(self.at, end, 2)
        self.splits += len(splits)
        self.at = end
        return [block for split in splits for block in self.source.read(split, ignore, lambda report: None)]


def ignore(reason: str, number: int) -> None:
    """Counts are not looked at."""


class Shop:
    """A database, and runs that begin where it was empty."""

    def __init__(self, server: StartedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.folder, self.database = server, folder, server.new_database("both")
        self.streams: dict[str, int] = {}
        self.run("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(2000), d DATE)")
        self.starts = {name: self._source(name).initial_offset() for name in ("one", "two", "alone")}
        shop, at = self, Streams.at

        def counted(self: Streams, *args: Any, **options: Any) -> Any:
            shop.streams[shop.reading] = shop.streams.get(shop.reading, 0) + 1
            return at(self, *args, **options)

        self.reading = ""
        monkeypatch.setattr(Streams, "at", counted)
        monkeypatch.setattr(decoded, "LEAST_BYTES", 1000)

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def insert(self, first: int, rows: int) -> None:
        for start in range(first, first + rows, 50):
            values = ", ".join(f"({id_}, REPEAT('x', 500), '2024-02-03')" for id_ in range(start, start + 50))
            self.run(f"INSERT INTO t (id, note, d) VALUES {values}")

    def reader(self, name: str) -> Reading:
        source = self._source(name)
        source.stop_at_current()
        return Reading(source, self.starts[name])

    def _source(self, name: str) -> MySqlSource:
        given = source_of(self.server, rf"{self.database}.\.*", **{"scan.startup.mode": "latest-offset"})
        siblings = None if name == "alone" else Siblings(self.folder / "log", name, 2)
        store = LocalStore(self.folder / name)
        return MySqlSource(MySqlSourceOptions.model_validate(given), Context("p", store, siblings=siblings))


@pytest.fixture
def shop(server: StartedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(server, tmp_path, monkeypatch)


def drained(shop: Shop, *names: str) -> dict[str, list[Any]]:
    """The row images of each, all in turn, and what each has opened of the log in `shop.streams`."""
    readers = {name: shop.reader(name) for name in names}
    rows: dict[str, list[Any]] = {name: [] for name in names}
    left = set(names)
    while left:
        for name in sorted(left):
            shop.reading = name
            found = readers[name].batch()
            if found is None:
                left.discard(name)
            else:
                rows[name] += images(found)
    for reader in readers.values():
        reader.source.stop()
    return rows


def test_a_backlog_is_read_once(shop: Shop) -> None:
    shop.insert(0, 1000)
    shop.run("UPDATE t SET note = 'y' WHERE id < 100", "DELETE FROM t WHERE id > 900")
    rows = drained(shop, "one", "two")
    alone = drained(shop, "alone")["alone"]
    assert len(alone) == 1000 + 200 + 99
    assert rows["one"] == rows["two"] == alone
    assert shop.streams["one"] > 5
    assert shop.streams["two"] <= 3  # a batch with the new table, and the end


def test_schema_changes_are_met_by_each(shop: Shop) -> None:
    shop.insert(0, 300)
    shop.run("ALTER TABLE t ADD more INT")
    shop.insert(300, 300)
    shop.run("ALTER TABLE t DROP note", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    shop.run("INSERT INTO t VALUES (900, NULL, 3)")
    rows = drained(shop, "one", "two")
    assert rows["one"] == rows["two"] == drained(shop, "alone")["alone"]
    assert rows["one"][-1] == ("+I", {"id": 900, "d": None, "more": 3})


def test_a_run_that_was_away_comes_to_the_others_again(shop: Shop) -> None:
    shop.insert(0, 300)
    drained(shop, "one")
    shop.starts["one"] = last(shop, "one")
    shop.insert(300, 700)
    rows = drained(shop, "one", "two")
    alone = drained(shop, "alone")["alone"]
    assert rows["two"] == alone
    assert rows["one"] == alone[300:]


def last(shop: Shop, name: str) -> Offset:
    reader = shop.reader(name)
    while reader.batch() is not None:
        continue
    reader.source.stop()
    return reader.at


def test_prepared_transactions_are_followed_by_each(shop: Shop) -> None:
    shop.insert(0, 300)
    shop.run("XA START 'a'", "INSERT INTO t VALUES (500, 'a', NULL)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
    shop.insert(600, 300)
    rows = drained(shop, "one", "two")
    assert rows["one"] == rows["two"] == drained(shop, "alone")["alone"]
    assert MySqlOffset.from_json(last(shop, "two")) == MySqlOffset.from_json(last(shop, "one"))
