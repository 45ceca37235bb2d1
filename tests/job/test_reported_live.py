"""What a source has met and tells reaches the log of a real run, in the middle of it as at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import ended, mysql_pipeline, present_end

from cdc_services.server import MySqlServer


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.mysql
def test_changes_that_the_log_does_not_tell_are_told(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("told")
    made = mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*", **present_end(mysql_server))
    alters = [f"ALTER TABLE t MODIFY a ENUM('{label}')" for label in ("a", "A", "a", "A", "a")]
    mysql_server.execute("CREATE TABLE t (a VARCHAR(9))", "INSERT INTO t VALUES ('a')", *alters, database=database)
    with ended(made) as pipeline:
        output = pipeline.catch_up().output
    told = [line for line in output.splitlines() if f"{database}.t: " in line and "may have changed column a;" in line]
    assert ["another list of labels" in line for line in told] == [False, True, True, True, True]
    assert all(" warning: " in line for line in told)
