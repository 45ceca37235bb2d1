"""What connectors and libraries log is seen in the run's log, in either format."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from cdc.job.log_records import log_records, log_records_here, log_records_of_runs
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


def test_a_run_that_ends_takes_no_record_from_another(request: pytest.FixtureRequest) -> None:
    """Records are told by many runs while others begin and end, with threads that give way all the time."""
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    ending = threading.Event()

    def come_and_go() -> None:
        while not ending.is_set():
            with log_records_here(lambda message, level="info": None):
                pass

    def told(run: int) -> list[str]:
        lines = list[str]()
        for number in range(500):
            with log_records_here(lambda message, level="info": lines.append(message)):
                logging.getLogger("connectors.values").info("%d of run %d", number, run)
        return lines

    with log_records_of_runs(), ThreadPoolExecutor(5) as pool:
        beside = pool.submit(come_and_go)
        try:
            found = list(pool.map(told, range(4)))
        finally:
            ending.set()
        beside.result()
    assert found == [[f"{number} of run {run}" for number in range(500)] for run in range(4)]
