"""Faults at every step of the protocol: the tables end as the source's, and no transaction stays open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from starrocks_harness import Harness
from tiers import crossed

from cdc.block import ChangeBlock
from cdc.errors import CdcError, CommitFailed, CommitUnknown, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    Kind,
    RenameColumn,
    SchemaChange,
    TruncateTable,
)
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from cdc.testing import sink_conformance as conformance
from cdc.testing.delivery_conformance import ID, KEYED, KEYLESS, LOG, NAME, ORDERS, by_id, keyed, keyless, row
from cdc.testing.sink_conformance import swap_names
from connectors.shared.streamload import settings
from connectors.shared.streamload.options import LoadSinkOptions
from connectors.starrocks.sink import StarRocksSink

pytestmark = pytest.mark.slow

POINTS = [
    *(f"fe.txn.{step}" for step in ("begin", "load", "prepare", "commit")),
    *(f"be.txn.{step}" for step in ("begin", "load", "prepare")),
    *(f"be.txn.{step}.done" for step in ("begin", "load", "prepare")),
    "fe.txn.commit.done", "be.load.body",
]  # fmt: skip
TRIES = 6


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def policy(options: LoadSinkOptions, context: Context) -> RetryPolicy:
        return RetryPolicy(options.retry_timeout_s, 0.01, 0.05, context.stopping)

    monkeypatch.setattr(settings, "retry_policy", policy)


@dataclass
class Run:
    """A pipeline that is tried again as the engine does: tasks after retryable errors, the rest after a restart."""

    harness: Harness
    sink: StarRocksSink = field(init=False)
    attempt: int = 0

    def __post_init__(self) -> None:
        self.sink = self.harness.sink()
        self.sink.apply(0, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])

    def restart(self) -> None:
        standin = self.harness.server.standin
        assert standin is not None
        try:
            standin.be_up()
        except OSError:
            standin.wait_killed()
            standin.restart()
        self.sink = self.harness.sink()

    def batch(self, number: int, parts: Sequence[Iterable[ChangeBlock]]) -> None:
        prepared = [item for part, blocks in enumerate(parts) for item in self.prepare(number, part, list(blocks))]
        self.commit(number, prepared)

    def prepare(self, number: int, part: int, blocks: list[ChangeBlock]) -> Sequence[Prepared]:
        for _ in range(TRIES):
            self.attempt += 1
            try:
                return self.sink.prepare(TaskAttempt(number, part, self.attempt), iter(blocks))
            except CdcError as error:
                if not error.retryable:
                    raise
                self.restart()
        raise AssertionError("the task fails every time")

    def commit(self, number: int, prepared: Sequence[Prepared]) -> None:
        for _ in range(TRIES):
            try:
                return self.sink.commit(number, prepared)
            except (CommitFailed, CommitUnknown):
                self.restart()
        raise AssertionError("the commit fails every time")

    def check(self) -> None:
        assert by_id(self.harness.rows(ORDERS)) == [row(1, "b"), row(3, "new")]
        assert by_id(self.harness.rows(LOG)) == [row(9), row(9), row(10)]
        assert set(self.harness.states()) <= {"VISIBLE", "ABORTED"}


BATCHES: list[list[list[ChangeBlock]]] = [
    [
        [keyed("+I", row(1, "a"), "+I", row(2, "x")), keyless("+I", row(9))],
        [keyed("-U", row(1, "a"), "+U", row(1, "b"))],
    ],
    [[keyless("+I", row(9), "+I", row(10)), keyed("-D", row(2, "x"), "+I", row(3, "new"))]],
]


def run_all(run: Run) -> None:
    for number, parts in enumerate(BATCHES):
        run.batch(number, parts)
    run.check()


@crossed("point, action", POINTS, ["cut", "status"])
def test_a_fault_at_each_step(harness: Harness, point: str, action: str) -> None:
    run = Run(harness)
    standin = harness.server.standin
    assert standin is not None
    standin.fault(point, action=action)
    run_all(run)


def test_an_outage_after_a_lost_answer_to_a_commit_is_waited_for(harness: Harness) -> None:
    """The label is PREPARED all the while: more questions fail than were once asked."""
    harness.options = {"retry-timeout": "1 min"}
    run = Run(harness)
    prepared = run.prepare(0, 0, [keyed("+I", row(1, "a"))])
    standin = harness.server.standin
    assert standin is not None
    standin.fault("fe.txn.commit", times=8)
    run.sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(1, "a")]


def test_a_front_end_that_begins_no_load_for_a_while_is_waited_for(harness: Harness) -> None:
    harness.options = {"retry-timeout": "1 min"}
    run = Run(harness)
    standin = harness.server.standin
    assert standin is not None
    standin.fault("fe.txn.begin", action="status", code=503, times=6)
    prepared = run.sink.prepare(TaskAttempt(0, 0, 0), iter([keyed("+I", row(1, "a"))]))
    run.sink.commit(0, prepared)
    assert harness.rows(ORDERS) == [row(1, "a")]


def test_the_page_of_a_proxy_is_no_answer(harness: Harness) -> None:
    run = Run(harness)
    standin = harness.server.standin
    assert standin is not None
    for point in ("be.txn.begin.done", "be.txn.load.done", "be.txn.prepare.done", "fe.txn.commit.done", "fe.state"):
        standin.fault(point, action="status", code=200, body="<html>The page of a proxy</html>")
    run_all(run)


def test_a_question_for_a_state_that_is_lost_is_asked_again(harness: Harness) -> None:
    run = Run(harness)
    standin = harness.server.standin
    assert standin is not None
    standin.fault("fe.txn.commit.done", times=2)
    standin.fault("fe.state", times=2)
    run_all(run)


def test_a_back_end_that_forgot_its_transaction(harness: Harness) -> None:
    """A rollback does not end such a one, a cancel does."""
    run = Run(harness)
    standin = harness.server.standin
    assert standin is not None
    run.sink._transactions.begin(ORDERS, run.sink._labels.label(0, ORDERS, 0))
    standin.command("lose_contexts")
    run_all(run)
    assert harness.states().count("ABORTED") == 1


CHANGES: list[SchemaChange] = [
    AddColumn(ORDERS, Column("qty", DataType.parse("INT"), default="7")),
    AlterColumnType(ORDERS, Column("name", DataType.parse("STRING")), NAME),
    RenameColumn(ORDERS, "name", "title"),
    AlterColumnType(ORDERS, Column("id", DataType.parse("BIGINT UNSIGNED"), nullable=False), ID),
    *swap_names(ORDERS, LOG),
    DropColumn(LOG, "qty"),
    TruncateTable(ORDERS),
]


@crossed(
    "statement, point",
    [
        "ADD COLUMN", "MODIFY COLUMN", "RENAME COLUMN", "CREATE TABLE IF NOT EXISTS `shop`.`cdc_rebuild", "INSERT INTO",
        "SWAP WITH", "DROP TABLE IF EXISTS", "RENAME `temporary`", "RENAME `orders`", "RENAME `log`", "DROP COLUMN",
        "TRUNCATE",
    ],
    ["sql", "sql.done"],
)  # fmt: skip
def test_schema_changes_go_on_where_they_were_cut(harness: Harness, point: str, statement: str) -> None:
    run = Run(harness)
    run.batch(0, [[keyed("+I", row(1, "a")), keyless("+I", row(9))]])
    standin = harness.server.standin
    assert standin is not None
    standin.fault(point, like=statement)
    with pytest.raises(SinkUnavailable):
        run.sink.apply(0, CHANGES)
    harness.sink().apply(0, CHANGES)
    harness.sink().apply(0, CHANGES)
    assert harness.rows(LOG) == [{"id": 1, "title": "a"}]
    assert harness.rows(ORDERS) == []
    described = harness.sink().describe(LOG)
    assert described is not None
    assert described.primary_key == ("id",)
    assert described.column("id").type.kind is Kind.BIGINT_UNSIGNED
    assert [name for (name,) in harness.server.query("SHOW TABLES FROM shop")] == ["log", "orders"]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("compression", ["gzip", "lz4_frame", "zstd"])
def test_bodies_can_be_compressed(harness: Harness, compression: str, guarantee: str) -> None:
    sink = harness.sink(**{"sink.properties.compression": compression, "sink.delivery-guarantee": guarantee})
    blocks = [keyed("+I", row(1, "a"), "+I", row(2, "b" * 200)), keyless("+I", row(3, "c"))]
    sink.commit(0, conformance.prepare(sink, 0, blocks, create=True))
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b" * 200)]
    assert harness.rows(LOG) == [row(3, "c")]
