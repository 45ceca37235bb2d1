"""GTIDs that are switched on or off while a pipeline stands still: MySQL does not send what was written before that."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import mysql_pipeline
from comparison import differences
from direct import DirectRuns
from servers import ServerFactory

from cdc.errors import SourceError
from cdc.source import Limits

LIMITS = Limits(1 << 26, 10**6)


@pytest.mark.mysql
def test_a_mode_that_the_log_is_not_sent_under_is_named_with_the_one_that_it_is(
    server_factory: ServerFactory, tmp_path: Path
) -> None:
    server = server_factory("mysql")
    database = server.new_database("mode")
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, server, f"{database}.t"))
    runs.catch_up(LIMITS)
    server.execute("INSERT INTO t VALUES (2)", database=database)
    number = 2
    for last, modes in (("OFF", ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")),
                        ("ON", ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"))):  # fmt: skip
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))
        with pytest.raises(SourceError, match="from before gtid_mode was changed") as caught:
            runs.catch_up(LIMITS)
        assert f"SET GLOBAL gtid_mode = {last}_PERMISSIVE; start again" in caught.value.hint
        server.execute(f"SET GLOBAL gtid_mode = {last}_PERMISSIVE")
        runs.catch_up(LIMITS)
        server.execute(f"SET GLOBAL gtid_mode = {last}")
        number += 1
        server.execute(f"INSERT INTO t VALUES ({number})", database=database)
        assert len(differences(server, runs.pipeline, [database])) == 1  # the last row is not read yet
    server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    runs.catch_up(LIMITS)
    assert differences(server, runs.pipeline, [database]) == []
