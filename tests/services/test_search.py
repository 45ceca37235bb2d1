"""The search servers for trials: `cdc dev opensearch` serves until it is told to end, and what it lacks is said."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from cdc_services.__main__ import NAMES, REGULAR
from cdc_services.search.install import DISTRIBUTIONS, find


def test_what_is_large_or_needs_a_newer_java_is_installed_when_it_is_named() -> None:
    assert set(NAMES) - set(REGULAR) == {"opensearch-3", "elasticsearch-8", "iceberg-spark"}
    assert "opensearch-3" in DISTRIBUTIONS


@pytest.mark.slow
def test_cdc_dev_opensearch_serves_until_it_is_told_to_end() -> None:
    if find("opensearch") is None:
        pytest.skip("no OpenSearch on this machine: run `make services`")
    command = [sys.executable, "-c", "from cdc_services.search.dev import serve; serve('opensearch', 0)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = "".join(iter(process.stdout.readline, "Ctrl-C stops the node and removes its data.\n"))
            address = re.search(r"hosts: (\S+)", said)
            assert address is not None
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(address[1], timeout=60) as answer:
                assert b'"distribution" : "opensearch"' in answer.read()
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "the node and its data are gone\n")
