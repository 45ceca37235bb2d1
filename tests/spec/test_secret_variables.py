"""Which environment variables hold secrets, so that the processes of a run do not get them."""

from __future__ import annotations

import os

import pytest

from cdc.job.spark.session import without_variables
from cdc.spec.check import check

TEXT = """source:
  type: mysql
  hostname: ${HOST}
  username: u
  password: a${PW}b${OTHER}
  tables: shop.orders
sink:
  type: starrocks
  jdbc-url: jdbc:mysql://fe:9030
  load-url: fe:8030
  username: ${USER_NAME}
  password: ${SINK_PW}
"""


def test_variables_of_secret_options_are_known_and_others_are_not() -> None:
    environment = {"HOST": "db", "PW": "1", "OTHER": "2", "SINK_PW": "3", "USER_NAME": "u"}
    assert check("p.yaml", TEXT.encode(), env=environment).spec.secret_variables == ("OTHER", "PW", "SINK_PW")


def test_they_are_there_again_after_the_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "x")
    with without_variables(["PW", "NOT_THERE"]):
        assert "PW" not in os.environ
    assert os.environ["PW"] == "x"
    assert "NOT_THERE" not in os.environ
