"""A state directory that was put back to an older copy: its batches are not taken for those that are in a lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness

from cdc.errors import SinkError
from cdc.testing.sink_conformance import ORDERS, keyed, prepare, row

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

LAKES = pytest.mark.parametrize("lake", [IcebergHarness, PaimonHarness])


@pytest.mark.slow
@LAKES
def test_a_batch_that_was_decided_in_another_past_is_refused(tmp_path: Path, lake: Callable[..., Any]) -> None:
    harness = lake(tmp_path)
    old = prepare(harness.sink(), 1, [keyed("+I", row(1, "old"))], create=True)
    for batch in range(3):
        harness.sink().commit(batch, prepare(harness.sink(), batch, [keyed("+I", row(batch, "new"))]))
    with pytest.raises(SinkError, match=r"batch 2 .* is in the table, and the state directory is at batch 1"):
        harness.sink().commit(1, old)
    assert [found["name"] for found in harness.rows(ORDERS)] == ["new"] * 3


@pytest.mark.slow
@LAKES
def test_a_batch_with_other_rows_than_the_one_that_is_in_is_refused(tmp_path: Path, lake: Callable[..., Any]) -> None:
    """Where it is prepared, in Iceberg: names of files are a function of the task. Where it is committed, in Paimon."""
    harness = lake(tmp_path)
    there = prepare(harness.sink(), 0, [keyed("+I", row(1, "new"))], create=True)
    harness.sink().commit(0, there)
    with pytest.raises(SinkError, match="older copy, or another run"):
        harness.sink().commit(0, prepare(harness.sink(), 0, [keyed("+I", row(1, "other"))]))
    harness.sink().commit(0, there)
    assert [found["name"] for found in harness.rows(ORDERS)] == ["new"]
