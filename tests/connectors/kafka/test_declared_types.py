"""Types that the pipeline file declares, where the messages do not tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka_log import Follower, TopicLog

from cdc.errors import CorruptLog


def test_a_declared_type_that_values_do_not_show_does_not_hold_up_the_topic(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", b'{"id":1,"doc":"{}","flag":"true"}', b'{"id":2,"doc":{"a":1},"flag":false}')
    columns: Any = {"orders": {"doc": "JSON", "flag": "BOOLEAN"}}
    found = Follower(log, tmp_path, columns=columns, **{"value.format": "json"})
    (batch,) = found.follow()
    assert [item[1] for item in batch if isinstance(item, tuple)] == [
        {"id": 1, "doc": "{}", "flag": True},
        {"id": 2, "doc": '{"a":1}', "flag": False},
    ]


def test_a_declared_binary_takes_the_number_that_its_bits_are_and_no_bytes_take_a_number(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", b'{"id":1,"bits":129}', b'{"id":2,"bits":null}')
    given: dict[str, Any] = {"value.format": "json", "columns": {"orders": {"bits": "BINARY(2)"}}}
    (batch,) = Follower(log, tmp_path / "bits", **given).follow()
    assert [item[1]["bits"] for item in batch if isinstance(item, tuple)] == [b"\x00\x81", None]
    given["columns"] = {"orders": {"bits": "BYTES"}}
    with pytest.raises(CorruptLog, match="column bits: is a number, not bytes as base64"):
        Follower(log, tmp_path / "bytes", **given).follow()
