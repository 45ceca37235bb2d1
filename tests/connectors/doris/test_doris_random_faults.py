"""Random faults and kills of the server while batches run: the tables end as the source's, and no load is left open.

Every run prints its seed. `CDC_FAULT_RUNS=500` runs more of them, `CDC_FAULT_SEED=7` one again.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doris_harness import Harness
from doris_servers import DorisServer, own_doris

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import AddColumn, Column, CreateTable, DataType, Kind, SchemaChange, TableSchema
from cdc.sink import Prepared
from cdc.testing.blocks import Row, block
from cdc.testing.delivery_conformance import ID, KEYED, KEYLESS, LOG, NAME, ORDERS, prepare
from connectors.doris.sink import DorisSink

SEEDS = (
    [int(os.environ["CDC_FAULT_SEED"])]
    if "CDC_FAULT_SEED" in os.environ
    else list(range(int(os.environ.get("CDC_FAULT_RUNS", "2"))))
)
BATCHES, MOST_TRIES = 5, 40
Fault = tuple[str, dict[str, Any]]
FAULTS: list[Fault] = [
    *((point, {"action": "cut"}) for point in ("fe.load", "be.load", "be.load.body", "be.load.done")),
    *((point, {"action": "cut"}) for point in ("fe.2pc", "be.2pc", "be.2pc.done", "fe.state", "sql", "sql.done")),
    *(
        (point, {"action": "status", "code": 503})
        for point in ("fe.load", "be.load", "be.load.done", "fe.2pc", "be.2pc")
    ),
    ("be.load", {"action": "refuse", "message": "[E-235]version count: 2001, exceed limit: 2000"}),
    ("be.load", {"action": "be_down"}),
    ("be.2pc", {"action": "refuse", "message": "get tableList write lock timeout"}),
]
KILLS: list[Fault] = [
    (point, {"action": "kill"})
    for point in (
        "be.load", "be.load.body", "be.load.done", "be.2pc", "be.2pc.done", "fe.2pc", "sql", "sql.done", "publish",
    )
]  # fmt: skip
"""Fewer of them: a stand-in takes a second to start."""
WIDE = TableSchema((ID, NAME, Column("qty", DataType(Kind.INT), default="7")), ("id",))


@pytest.fixture(scope="module")
def server() -> Iterator[DorisServer]:
    with own_doris() as running:
        yield running


class Source:
    """Random changes of both tables, and what the tables are after each batch."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.schema = chance, KEYED
        self.orders: dict[int, Row] = {}
        self.log: list[Row] = []

    def changes(self, batch: int) -> list[SchemaChange]:
        """What comes before the rows of a batch."""
        if batch == 0:
            return [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)]
        if batch == 2:
            self.schema = WIDE
            self.orders = {key: {**item, "qty": 7} for key, item in self.orders.items()}
            return [AddColumn(ORDERS, WIDE.columns[2])]
        return []

    def parts(self, batch: int) -> list[list[ChangeBlock]]:
        """The blocks of a batch, by partition."""
        return [[self._orders(batch), self._log(batch)] for _ in range(2)]

    def _orders(self, batch: int) -> ChangeBlock:
        images: list[tuple[str, Row]] = []
        for number in range(self.chance.randrange(1, 8)):
            key = self.chance.randrange(6)
            new = {"id": key, "name": f"{batch}-{number}"} | ({"qty": number} if self.schema is WIDE else {})
            old = self.orders.pop(key, None)
            if old is None:
                images.append(("+I", new))
            elif self.chance.random() < 0.3:
                images.append(("-D", old))
                continue
            else:
                images += [("-U", old), ("+U", new)]
            self.orders[key] = new
        return block(ORDERS, self.schema, images)

    def _log(self, batch: int) -> ChangeBlock:
        rows = [{"id": batch, "name": str(self.chance.randrange(3))} for _ in range(self.chance.randrange(4))]
        self.log += rows
        return block(LOG, KEYLESS, [("+I", item) for item in rows])


class Driver:
    """Runs batches as the engine does, and starts over after every error."""

    def __init__(self, harness: Harness, chance: random.Random) -> None:
        self.harness, self.chance = harness, chance
        self.sink: DorisSink = harness.sink()
        self.tries = 0

    def run(self, batch: int, changes: list[SchemaChange], parts: list[list[ChangeBlock]]) -> None:
        decided: list[Prepared] | None = None
        while True:
            self._arm()
            try:
                if decided is None:
                    self.sink.abort(batch)
                    if changes:
                        self.sink.apply(0, changes)
                    decided = [
                        item for index, blocks in enumerate(parts)
                        for item in prepare(self.sink, batch, blocks, partition=index, attempt=self.tries)
                    ]  # fmt: skip
                if self.chance.random() < 0.1:
                    self._restart()
                self.sink.commit(batch, decided)
                return
            except SinkError as error:
                if "aborted" in error.message:
                    raise
                self._restart()

    def _arm(self) -> None:
        if self.tries < MOST_TRIES and self.chance.random() < 0.7:
            point, fault = self.chance.choice(KILLS if self.chance.random() < 0.15 else FAULTS)
            try:
                self.harness.server.own.fault(point, **fault)
            except OSError:  # killed while it published an earlier batch, after the answer
                self.harness.server.own.revive()

    def _restart(self) -> None:
        """The tool dies, and the server when it was killed; both come back."""
        self.tries += 1
        assert self.tries < MOST_TRIES + 10, "the run does not get on"
        self.harness.server.own.revive()
        self.sink = self.harness.sink()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_end_as_the_sources(server: DorisServer, tmp_path: Path, seed: int) -> None:
    print(f"CDC_FAULT_SEED={seed}")
    chance = random.Random(seed)
    server.query("DROP DATABASE IF EXISTS shop FORCE")
    harness = Harness(server, tmp_path / "sink", f"random-{os.getpid()}-{seed}")
    source, driver = Source(chance), Driver(harness, chance)
    try:
        for batch in range(BATCHES):
            driver.run(batch, source.changes(batch), source.parts(batch))
    finally:
        server.own.revive()
    found = harness.rows(ORDERS)
    assert found is not None
    assert sorted(found, key=_by_text) == sorted(source.orders.values(), key=_by_text)
    log = harness.rows(LOG)
    assert log is not None
    assert sorted(log, key=_by_text) == sorted(source.log, key=_by_text)
    driver.sink.abort(BATCHES - 1)
    open_ = [item for item in server.own.transactions() if item["state"] not in ("VISIBLE", "ABORTED")]
    assert open_ == []


def _by_text(item: Row) -> str:
    return str(sorted(item.items()))
