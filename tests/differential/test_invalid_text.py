"""Bytes that a column's character set does not have: the server takes them, and shows them as `?`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.errors import UnsupportedChange
from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]
LIMITS = Limits(1 << 26, 10**6)


def test_they_stop_the_pipeline_or_are_replaced_and_counted(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("invalid_text")
    any_server.execute(
        "CREATE TABLE t (k VARCHAR(9) CHARACTER SET cp1250 PRIMARY KEY, a TEXT CHARACTER SET cp1250, "
        "b VARCHAR(9) CHARACTER SET euckr)",
        "INSERT INTO t VALUES ('1', _cp1250 0x418142, NULL)",
        database=database,
    )
    pipeline = mysql_pipeline(tmp_path, any_server, rf"{database}.\.*")
    runs = DirectRuns(pipeline)
    with pytest.raises(UnsupportedChange, match=r"column a: the bytes 0x418142 are not text.*invalid-text: replace"):
        runs.catch_up(LIMITS)
    pipeline.source["invalid-text"] = "replace"
    assert runs.catch_up(LIMITS).reasons == {f"replacement-characters {database}.t.a": 1}
    any_server.execute("INSERT INTO t VALUES ('2', _cp1250 0x8181, _euckr 0x41C9A142)", database=database)
    log = {f"replacement-characters {database}.t.{name}": 1 for name in "ab"}
    assert runs.catch_up(LIMITS).reasons == log
    rows = pipeline.query(f"SELECT a, b FROM {database}.t ORDER BY k")
    assert rows == [("A\ufffdB", None), ("\ufffd\ufffd", "A\ufffdB")]
    any_server.execute("INSERT INTO t VALUES (_cp1250 0x81, NULL, NULL)", database=database)
    with pytest.raises(UnsupportedChange, match="column k: the bytes 0x81 are not text"):
        runs.catch_up(LIMITS)
