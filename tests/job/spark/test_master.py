"""A master that does not answer is named at once, with why."""

from __future__ import annotations

import socket

import pytest
from together import together

from cdc.errors import EngineError
from cdc.job.spark.master import check_master


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_a_master_that_refuses_connections_is_named() -> None:
    port = closed_port()
    with pytest.raises(EngineError, match=rf"does not answer: 127.0.0.1:{port}: Connection refused") as raised:
        check_master(f"spark://127.0.0.1:{port}", tries_s=0)
    assert raised.value.where == f"spark://127.0.0.1:{port}"
    assert "--master" in raised.value.hint


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{listening.getsockname()[1]}", tries_s=0)


def test_a_host_that_is_none_and_an_address_that_is_none() -> None:
    with pytest.raises(EngineError, match=r"no\.such\.host\.invalid:7077: "):
        check_master("spark://no.such.host.invalid:7077", tries_s=0)
    with pytest.raises(EngineError, match="is not host:port"):
        check_master("spark://host")


@together("master", ["local[2]", "yarn", "k8s://https://10.0.0.1:6443"])
def test_other_masters_are_not_asked(master: str) -> None:
    check_master(master, tries_s=0)
