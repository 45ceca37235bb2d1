"""Which of several schema-change jobs is the latest."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.errors import ChangeRefused
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from connectors.shared.streamload.schema_session import AlterJobs


class Session:
    """Answers as a server that orders by time alone."""

    def __init__(self, *jobs: tuple[int, str]) -> None:
        self._jobs = [
            {"JobId": number, "State": state, "CreateTime": "2026-01-01 00:00:00", "Msg": ""} for number, state in jobs
        ]

    def records(self, sql: str) -> list[dict[str, Any]]:
        most = int(sql.rpartition("LIMIT ")[2])
        return self._jobs[:most]


def test_jobs_of_the_same_second_are_told_apart_by_their_ids() -> None:
    session = Session((99, "FINISHED"), (101, "CANCELLED"), (100, "FINISHED"))
    jobs = AlterJobs(session, RetryPolicy(), "Doris", newest_by="CreateTime", blocked="")  # type: ignore[arg-type]
    with pytest.raises(ChangeRefused, match="cancelled"):
        jobs.wait(TableId("shop", "orders"))
    assert AlterJobs(Session(), RetryPolicy(), "Doris", newest_by="CreateTime", blocked="").last(  # type: ignore[arg-type]
        TableId("shop", "orders")
    ) is None  # fmt: skip
