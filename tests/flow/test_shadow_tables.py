"""Re-snapshots in sinks that have no shadow tables."""

from __future__ import annotations

import logging
from typing import cast
from unittest.mock import MagicMock

import pytest

from cdc.flow.shadow_tables import changes_for
from cdc.schema import CreateShadow, TableId, TruncateTable
from cdc.sink import KeylessRows, Sink

ORDERS = TableId("shop", "orders")


@pytest.mark.parametrize(
    ("keyless", "told"), [(KeylessRows.EQUAL, "is emptied before"), (KeylessRows.CHANGES, "nothing shows which")]
)
def test_a_warning_says_whether_rows_that_are_gone_stay(
    keyless: KeylessRows, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = cast(Sink, MagicMock(shadows=False, keyless=keyless))
    with caplog.at_level(logging.WARNING):
        assert changes_for(sink, [CreateShadow(ORDERS)]) == [TruncateTable(ORDERS)]
    assert told in caplog.text
