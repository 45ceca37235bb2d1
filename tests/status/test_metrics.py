"""Metrics for Prometheus: what a scrape gives, how many series there are, and that page and dashboard know them all."""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from metrics_page import page_with_tables
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from together import together

from cdc.errors import EngineError
from cdc.progress import ChangeCounts
from cdc.status.families import ALIASES, FAMILIES, TABLE_FAMILIES, Family
from cdc.status.file import LiveStatus
from cdc.status.metrics import OTHERS, Collected, MetricsServer, metrics_text
from cdc.status.model import Batch, Copy, SchemaTotals, SinkLag, StatusDocument, TableStatus

ROOT = Path(__file__).parent.parent.parent
SHOP = StatusDocument(
    "shop-1", "shop", "mysql", "duckdb", "running", 1, "here", 1000.0, 1001.0, lag=SinkLag(2.5, 700, 3, 0.2), read=9,
    totals=ChangeCounts(3, 2, 1), batches_total=4, phases={"read": 1.5, "commit": 0.5}, runs=3, restarts=2,
    dead_letters=7, schema=SchemaTotals("try_evolve", 5, 2, 1, 1),
    counts={"too-long-truncated a.b": 2, "too-long-truncated a.c": 3},
    tables=(
        TableStatus("shop.orders", ChangeCounts(3, 2, 1), 9, copy=Copy("copying", 10, 40, 1, 4)),
        TableStatus("shop.users", copy=Copy("done", 5, 5, 1, 1, started_s=7.0, updated_s=9.0)),
    ),
    batches=(Batch(3, 1000.5, 0.75, 6, 1),),
)  # fmt: skip


def scraped(*seen: LiveStatus, most_tables: int = 500) -> dict[tuple[str, ...], float]:
    """Each sample by its name and label values after the pipeline's."""
    text = metrics_text(lambda: seen, most_tables)().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            others = [value for label, value in sample.labels.items() if label != "pipeline"]
            found[(sample.name, sample.labels["pipeline"], *others)] = sample.value
    return found


def test_a_scrape_has_the_numbers_of_the_document() -> None:
    found = scraped(LiveStatus(SHOP, True))
    for key, value in {
        ("cdc_up", "shop"): 1, ("cdc_state", "shop", "running"): 1, ("cdc_state", "shop", "lost"): 0,
        ("cdc_lag_seconds", "shop"): 2.5, ("cdc_lag_bytes", "shop"): 700, ("cdc_lag_transactions", "shop"): 3,
        ("cdc_rows_read_total", "shop"): 9, ("cdc_batches_total", "shop"): 4, ("cdc_dead_letters_total", "shop"): 7,
        ("cdc_batch_phase_seconds_total", "shop", "read"): 1.5, ("cdc_restarts_total", "shop"): 2,
        ("cdc_last_commit_timestamp_seconds", "shop"): 1000.5, ("cdc_batch_duration_seconds", "shop"): 0.75,
        ("cdc_copy_rows", "shop"): 15, ("cdc_copy_estimated_rows", "shop"): 45, ("cdc_tables", "shop"): 2,
    }.items():  # fmt: skip
        assert found[key] == value, key
    assert found[("cdc_rows_written_total", "shop", "update")] == 2
    assert found[("cdc_schema_changes_total", "shop", "held-back")] == 2
    assert found[("cdc_counted_total", "shop", "too-long-truncated")] == 5, "columns make no series"


@together("state, alive, up", [("running", True, 1), ("running", False, 0), ("failed", False, 0), ("ended", False, 1)])
def test_a_pipeline_without_a_server_is_up_unless_it_has_failed_or_is_lost(state: str, alive: bool, up: int) -> None:
    assert scraped(LiveStatus(replace(SHOP, state=state), alive))[("cdc_up", "shop")] == up


def test_what_has_not_changed_is_not_written_again_and_the_text_is_as_the_library_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    reading = Collected.samples

    def samples(collected: Collected, family: Family, seen: LiveStatus) -> Any:
        read.append(family.name)
        return reading(collected, family, seen)

    odd = replace(SHOP, name='a "b"\nc\\', tables=(TableStatus('x"y.z'),), batches=())
    seen = [
        LiveStatus(SHOP, True),
        LiveStatus(odd, False),
        *(LiveStatus(replace(odd, name=f"p-{n}"), True) for n in range(9)),
    ]
    monkeypatch.setattr("cdc.status.families.time.time", lambda: 5000.0)
    monkeypatch.setattr(Collected, "samples", samples)
    registry, text = CollectorRegistry(auto_describe=False), metrics_text(lambda: seen)
    registry.register(Collected(lambda: seen))
    changed = [replace(seen[0], status=replace(SHOP, read=10)), replace(seen[1], life="failed"), *seen[3:]]
    for documents in (seen, seen, changed, changed):
        seen = documents
        wanted = generate_latest(registry)
        read.clear()
        assert text() == wanted
    assert set(read) == {"flink_taskmanager_job_task_operator_sourceIdleTime"}, "that moves by itself"


def test_flinks_names_have_flinks_meaning() -> None:
    found = {
        name.rpartition("_")[2]: value
        for (name, *_), value in scraped(LiveStatus(SHOP, True)).items()
        if "flink" in name
    }
    assert found.pop("sourceIdleTime") > 1000
    assert found == {
        "snapshotStartTime": 7000,
        "currentEmitEventTimeLag": 2500, "numRecordsIn": 9, "numRecordsOut": 6, "numSchemaChangeEvents": 9,
        "numFinishedSchemaChangeEvents": 5, "numFailedSchemaChangeEvents": 1, "numIgnoredSchemaChangeEvents": 3,
        "schemaChangeBehavior": 2, "isSnapshotting": 1, "isStreamReading": 1, "numTablesSnapshotted": 1,
        "numTablesRemaining": 1, "numSnapshotSplitsProcessed": 2, "numSnapshotSplitsRemaining": 3,
        "numSnapshotSplitsFinished": 2,
    }  # fmt: skip


def test_what_nobody_knows_has_no_sample() -> None:
    unknown = StatusDocument("x-1", "x", "values", "values", "starting", 1, "here", 1.0, 1.0)
    found = scraped(LiveStatus(unknown, True))
    assert ("cdc_lag_seconds", "x") not in found
    assert ("cdc_last_commit_timestamp_seconds", "x") not in found
    copied_before = replace(unknown, tables=(TableStatus("shop.a", copy=Copy("done", 2, 2)),))
    assert not [name for name, *_ in scraped(LiveStatus(copied_before, True)) if "snapshotEndTime" in name]


def test_tables_beyond_the_bound_are_one_series_and_stay_it() -> None:
    def status(names: list[str]) -> LiveStatus:
        tables = tuple(TableStatus(name, ChangeCounts(inserts=1), copy=Copy("done", 2, 2)) for name in sorted(names))
        return LiveStatus(
            StatusDocument("m-1", "m", "mysql", "duckdb", "running", 1, "here", 1.0, 1.0, tables=tables), True
        )

    seen = [status(["t5", "t6", "t7"])]
    text = metrics_text(lambda: seen, 4)
    text()
    seen[:] = [status(["t1", "t2", "t3", "t5", "t6", "t7"])]
    found = {
        sample.labels["table"]: sample.value
        for family in text_string_to_metric_families(text().decode())
        for sample in family.samples
        if sample.name == "cdc_table_rows_written_total"
    }
    assert found == {"t5": 1, "t6": 1, "t7": 1, "t1": 1, OTHERS: 2}


def test_hostile_names_stay_label_values() -> None:
    name = 'a"} 1\ncdc_up{pipeline="forged'
    hostile = StatusDocument(
        "h", name, "mysql", "duckdb", "running", 1, "here", 1.0, 1.0, tables=(TableStatus(name, read=4),)
    )
    found = scraped(LiveStatus(hostile, True))
    assert found[("cdc_up", name)] == 1
    assert not any(label == "forged" for _, label, *_ in found)


def test_they_are_served_on_this_machine_for_as_long_as_the_run_lives() -> None:
    server = MetricsServer()
    port = server.start("127.0.0.1", 0)
    try:
        server(SHOP)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b'cdc_lag_seconds{pipeline="shop"} 2.5' in answer.read()
        with pytest.raises(EngineError, match="metrics cannot be served"):
            MetricsServer().start("127.0.0.1", port)
    finally:
        server.stop()


def test_the_page_has_a_table_of_them_all() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert page == page_with_tables(page), "run `make schemas`"
    for family in (*FAMILIES, *TABLE_FAMILIES, *ALIASES):
        assert f"| `{family.name}` |" in page


def test_every_query_of_the_dashboard_names_metrics_that_exist_and_every_metric_is_looked_at() -> None:
    board = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked = {name for query in queries for name in re.findall(r"\bcdc_[a-z_]+", query)}
    known = {family.name for family in (*FAMILIES, *TABLE_FAMILIES)}
    assert asked - known == set()
    shown_elsewhere = {"cdc_errors", "cdc_table_copy_rows", "cdc_table_copy_estimated_rows"}
    assert known - asked == shown_elsewhere
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_every_alert_of_the_page_names_a_metric_and_labels_that_exist() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    (block,) = re.findall(r"^Suggested alerts:\n\n((?: {4}.+\n)+)", page, re.MULTILINE)
    found = scraped(LiveStatus(SHOP, True))
    for alert in block.splitlines():
        (metric,) = re.findall(r"cdc_[a-z_]+", alert)
        assert any(name == metric for name, *_ in found), alert
        for state in re.findall(r'state=~"([^"]+)"', alert):
            assert {(metric, "shop", each) for each in state.split("|")} <= found.keys(), alert
