"""Object stores of a Paimon warehouse that cannot be reached as addressed: an error in time, with its cause."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness

from cdc.errors import SinkError, SinkUnavailable
from cdc.testing.sink_conformance import ORDERS, keyed, prepare, row
from connectors.paimon.object_store import check_bucket, nameless_host
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.upkeep import publishing

pytestmark = pytest.mark.slow

STORE = {"warehouse": "s3://lake/tables", "s3.endpoint": "http://store.example:9000"}


@pytest.mark.parametrize(
    ("endpoint", "style", "nameless"),
    [
        ("http://127.0.0.1:9000", None, "127.0.0.1"),
        ("http://[::1]:9000", "false", "::1"),
        ("localhost:9000", None, "localhost"),
        ("http://127.0.0.1:9000", "true", ""),
        ("http://store.example", None, ""),
        (None, None, ""),
    ],
)
def test_no_bucket_goes_before_an_address(endpoint: str | None, style: str | None, nameless: str) -> None:
    found = {"s3.endpoint": endpoint, "s3.path-style-access": style}
    given = {name: text for name, text in found.items() if text is not None}
    assert nameless_host(given) == nameless
    catalog = {"metastore": "filesystem", "warehouse": "s3://lake/tables", **given}
    options = {f"catalog.properties.{name}": text for name, text in catalog.items()}
    problems = PaimonSinkOptions.model_validate({"type": "paimon", **options}).problems()
    keys = [remark.key for remark in problems]
    assert keys == (["catalog.properties.s3.path-style-access"] if nameless else [])


@pytest.mark.parametrize(("number", "kind"), [(socket.EAI_NONAME, SinkError), (socket.EAI_AGAIN, SinkUnavailable)])
def test_a_bucket_without_a_host_is_told_at_the_start(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SinkError]
) -> None:
    asked = list[Any]()

    def looked_up(*place: Any) -> None:
        asked.append(place)
        raise socket.gaierror(number, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    with pytest.raises(SinkError, match=r"lake\.store\.example") as found:
        check_bucket(STORE)
    assert type(found.value) is kind
    assert "path-style-access" in found.value.hint
    assert asked == [("lake.store.example", 9000)]
    check_bucket({**STORE, "s3.path.style.access": "true"})
    check_bucket({"warehouse": "/data/lake"})
    assert len(asked) == 1


def test_a_snapshot_that_cannot_be_put_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = PaimonHarness(tmp_path, {"sink.compaction": "off", "table.properties.commit.max-retry-wait": "1 ms"})
    sink = lake.sink()
    for batch in range(3):
        sink.commit(batch, prepare(sink, batch, [keyed("+I", row(batch))], create=batch == 0))

    def full(*_: Any) -> bool:
        raise OSError("the bucket's quota is used up")

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "create", full)
        with pytest.raises(SinkError, match="the bucket's quota is used up"):
            sink.compact(ORDERS)
    assert "files merged" in sink.compact(ORDERS)
    assert len(lake.rows(ORDERS) or []) == 3
