"""Batches that cannot be planned. Unit level: what they wait for is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import pytest

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.batch_planner import BatchPlanner
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition

ORDERS = TableId("shop", "orders")


@pytest.mark.parametrize(
    ("blocked", "message"),
    [([ORDERS], "other tables on the server than in its log"), ([], "the snapshot has made no progress for 0 s")],
)
def test_a_bounded_run_names_the_tables_that_it_waits_for_in_vain(blocked: list[TableId], message: str) -> None:
    parts = MagicMock(given=SimpleNamespace(startup_mode="snapshot", retry_timeout_s=0.0))
    parts.coordinator.blocked, parts.coordinator.unfinished.return_value = blocked, [ORDERS]
    planner = BatchPlanner(parts)
    planner.stop_at_current()
    here = MySqlOffset(LogPosition("binlog.000001", 4), schemas=1)
    with patch.object(planner, "_try_next", return_value=here), pytest.raises(SourceError, match=message) as raised:
        planner.next(here, None, 0.0)
    assert raised.value.where == "shop.orders"
