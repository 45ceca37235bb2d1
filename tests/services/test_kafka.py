"""The broker for trials: what is brought is what is pinned, it keeps what was written, it dies with its owner."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_servers import BrokerFactory, KafkaServer, shared_broker

from cdc_services.kafka.install import check, find, install, pinned


def test_only_the_pinned_jars_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"a")
    right = {"a.jar": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}
    check(tmp_path, right)
    for wrong in ({}, {"a.jar": "0" * 64}, {**right, "b.jar": "0" * 64}):
        with pytest.raises(ValueError, match=r"not the pinned ones: [ab]\.jar"):
            check(tmp_path, wrong)
    assert "kafka_2.13-4.4.0.jar" in pinned()


def test_a_machine_without_maven_is_told_so_and_nothing_is_left(tmp_path: Path) -> None:
    bare = {**os.environ, "PATH": str(tmp_path)}
    with pytest.raises(LookupError, match="Maven"):
        install(tmp_path / "cache", str, bare)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("x, kafka", pytest.fail.Exception)])
def test_a_missing_broker_is_skipped_or_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("CDC_TEST_KAFKA", raising=False)
    monkeypatch.setenv("CDC_SERVICES_DIR", str(tmp_path))
    monkeypatch.setenv("CDC_REQUIRE_SERVICES", required)
    with pytest.raises(outcome, match=r"CDC_TEST_KAFKA.*make services"), shared_broker():
        raise AssertionError("there is no broker")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_broker_keeps_records_through_a_crash(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    broker.create("t", 2)
    broker.produce("t", [{"value": b"1", "partition": 1}, {"value": b"2", "partition": 0, "headers": [("h", b"x")]}])
    assert broker.process is not None
    broker.process.kill9()
    broker.process.start()
    assert [(m.partition(), m.value(), m.headers()) for m in broker.read("t")] == [
        (0, b"2", [("h", b"x")]), (1, b"1", None),
    ]  # fmt: skip
    assert broker.topics() == {"t"}


@pytest.mark.kafka
@pytest.mark.slow
def test_cdc_dev_kafka_serves_until_it_is_told_to_end() -> None:
    if find() is None:
        pytest.skip("no Kafka on this machine: run `make services`")
    command = [sys.executable, "-m", "cdc", "dev", "kafka", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = "".join(iter(process.stdout.readline, "Ctrl-C stops the broker and removes its data.\n"))
            address = re.search(r"properties\.bootstrap\.servers: (\S+)", said)
            assert address is not None
            broker = KafkaServer(address[1])
            broker.produce("made-by-writing", [{"value": b"1"}])
            assert [m.value() for m in broker.read("made-by-writing")] == [b"1"]
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "the broker and its data are gone\n")
