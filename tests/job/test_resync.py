"""`cdc resync` while nothing runs: the request, and what it says of batches that are decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.errors import SourceError
from cdc.flow.offsets import numbered
from cdc.job.resync import request_resync
from cdc.schema import TableId
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.testing import ListSource


class Copying(ListSource):
    """Captures `shop`, whose tables it can copy anew."""

    def resync(self, table: TableId) -> None:
        if table.database != "shop":
            raise SourceError("the pipeline does not capture this table", where=str(table))


@dataclass(frozen=True)
class Rule:
    source_table: str
    sink_table: str
    replace_symbol: str | None = None


@pytest.fixture
def spec() -> Any:
    source = SimpleNamespace(type="mysql", build=lambda context: Copying(()))
    return SimpleNamespace(name="p", source=source, route=[Rule(r"shop.orders", "lake.orders")])


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """That of a pipeline that has decided batch 7."""
    state = StateDir(tmp_path / "state")
    state.open(name="p", source="mysql")
    state.store_initial_offset(numbered({}, 0))
    log = CommitLog(state.commits)
    log.decide(Decision(7, {}, {}, ()))
    return log


def test_the_rows_of_decided_batches_may_be_let_go_for_the_sink_table(
    spec: Any, log: CommitLog, tmp_path: Path
) -> None:
    request_resync(spec, "shop.orders", tmp_path / "state")
    assert log.resyncs(7) == {"lake.orders"}
    assert log.resyncs(8) == frozenset()


def test_a_table_that_is_not_captured_keeps_its_rows(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not capture"):
        request_resync(spec, "other.orders", tmp_path / "state")
    assert log.resyncs(0) == frozenset()
