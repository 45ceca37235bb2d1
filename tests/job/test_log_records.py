"""What connectors and libraries log is seen in the run's log, in either format."""

from __future__ import annotations

import io
import json
import logging

import pytest

from cdc.job.log_records import log_records
from cdc.job.report import Reporter


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_records_are_lines_of_the_log(log_format: str, capfd: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    with log_records(Reporter(log_format, err=err).line):
        logging.getLogger("connectors.doris.jobs").info("shop.orders: waits, for %.0f s", 10.0)
        logging.getLogger("connectors.doris.jobs").debug("too much")
        logging.getLogger("py4j").info("too much, too")
        logging.getLogger("py4j").error("lost %s", "it")
    logging.getLogger("connectors.doris.jobs").info("after the run")
    lines = err.getvalue().splitlines()
    if log_format == "json":
        found = [(line["level"], line["message"]) for line in map(json.loads, lines)]
        assert found == [("info", "shop.orders: waits, for 10 s"), ("error", "py4j: lost it")]
    else:
        assert [line[9:] for line in lines] == ["shop.orders: waits, for 10 s", "error: py4j: lost it"]
    assert capfd.readouterr().err == ""
