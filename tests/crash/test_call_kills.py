"""Processes that are killed at a call to a server or a file, some at random for each kind of sink (`call_kills`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from call_kills import run_apart
from kafka_servers import KafkaServer
from tiers import EXHAUSTIVE, one_in

from cdc_services.server import MySqlServer

pytestmark = pytest.mark.slow

TABLE_KILLS = str(Path(__file__).with_name("table_kills.py"))


@pytest.mark.parametrize("kind", one_in(5, ["starrocks", "duckdb", "paimon", "iceberg", "doris"]))
def test_the_next_process_goes_on_where_one_was_killed(kind: str) -> None:
    run_apart(kind, "--seed", "2", "--batches", "2")


@pytest.mark.kafka
def test_the_next_process_goes_on_with_transactions_of_one_that_was_killed(kafka_broker: KafkaServer) -> None:
    run_apart("kafka", "--seed", "2", "--batches", "2", "--server", json.dumps({"bootstrap": kafka_broker.bootstrap}))


@EXHAUSTIVE
@pytest.mark.mysql
def test_the_next_process_goes_on_beside_connections_of_one_that_was_killed(mysql_sink_server: MySqlServer) -> None:
    names = ("host", "port", "user", "password", "flavor", "version")
    fields: dict[str, Any] = {name: getattr(mysql_sink_server, name) for name in names}
    run_apart("mysql", "--seed", "2", "--batches", "2", "--server", json.dumps(fields))


@EXHAUSTIVE
@pytest.mark.parametrize("kind", ["starrocks", "duckdb", "paimon", "iceberg", "doris"])
def test_a_process_goes_on_where_a_call_failed(kind: str) -> None:
    run_apart(kind, "--seed", "2", "--batches", "4", "--faults")


@EXHAUSTIVE
@pytest.mark.parametrize("kind", ["starrocks", "duckdb", "paimon", "iceberg", "doris"])
def test_tables_are_re_snapshotted_renamed_and_routed_elsewhere_by_processes_that_are_killed(kind: str) -> None:
    run_apart(kind, "--seed", "4", script=TABLE_KILLS)
    run_apart(kind, "--seed", "4", "--faults", script=TABLE_KILLS)
