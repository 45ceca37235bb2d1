"""Executors that outlive runs, as those of `cdc serve` do: what a run has left in them goes."""

from __future__ import annotations

import gc
import weakref

from cdc.source import Context
from cdc.state.served.store import ServedStore
from cdc.state.served.wire import StateEndpoint
from connectors.mysql.schema import schemas
from connectors.mysql.snapshot.plan.chunk_plan import shared_plan, shared_watermarks
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.sink import StarRocksSink


def store_of_run(run: int) -> ServedStore:
    return ServedStore(StateEndpoint("driver", 4040, f"token-{run}", "certificate", "/state/shop"), "source")


def test_logs_of_long_past_runs_are_forgotten() -> None:
    first: list[weakref.ref[object]] = []
    for remembered in (schemas._shared, shared_plan, shared_watermarks):
        first.append(weakref.ref(remembered(store_of_run(0))))
        assert remembered(store_of_run(0)) is first[-1]()
        for run in range(1, 100):
            remembered(store_of_run(run))
    gc.collect()
    assert [log() for log in first] == [None, None, None]


def test_the_tables_of_starrocks_are_known_over_runs() -> None:
    given = {"type": "starrocks", "jdbc-url": "jdbc:mysql://fe1:9030", "load-url": "fe1:8030", "username": "u"}
    options = StarRocksSinkOptions.model_validate({**given, "password": "p"})
    sinks = [StarRocksSink(options, Context("shop-1", store_of_run(run))) for run in range(5)]
    assert len({id(sink._targets) for sink in sinks}) == 1
