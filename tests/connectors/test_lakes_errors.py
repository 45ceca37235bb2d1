"""Errors of stores: what may pass is tried again, and no schema change counts as refused for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness

from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from connectors.shared.lake.columns import LakeColumn, as_stored, check_columns

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

pytestmark = pytest.mark.slow
T = TableId("shop", "orders")
SCHEMA = TableSchema((Column("id", DataType.parse("INT"), False),), ("id",))


@pytest.mark.parametrize("lake", [IcebergHarness, PaimonHarness], ids=["iceberg", "paimon"])
@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("AWS Error NETWORK_CONNECTION during UploadPart operation: curlCode: 28, Timeout was reached", True),
        ("AWS Error SLOW_DOWN during PutObject operation: Please reduce your request rate.", True),
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", True),
        ("AWS Error UNKNOWN (HTTP status -1) during UploadPart operation: XML_ERROR_MISMATCHED_ELEMENT", True),
        ("Connection broken: IncompleteRead(956 bytes read, 956 more expected)", True),
        ("1 validation error for TableResponse\n  Invalid JSON [type=json_invalid, input_value='<h>']", True),
        ("AWS Error ACCESS_DENIED during PutObject operation: The provided token has expired.", False),
        ("Max retries exceeded (SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired)", False),
        ("AWS Error NETWORK_CONNECTION during HeadObject: curlCode: 60, SSL peer certificate was not OK", True),
        ("[Errno 28] No space left on device", False),
        ("Failed to commit schema: [Errno 28] No space left on device", False),
    ],
)
def test_a_store_that_fails_refuses_no_schema_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Callable[..., Any], text: str, passes: bool
) -> None:
    kind = OSError if text.startswith(("AWS", "Conn", "[")) else RuntimeError
    refused = _refused(lake(tmp_path), kind(text), monkeypatch)
    assert not isinstance(refused, ChangeRefused)
    assert isinstance(refused, SinkUnavailable) == passes
    assert ("check the rights" in refused.hint) == ("ACCESS_DENIED" in text)
    assert ("renew the server's certificate" in refused.hint) == ("certificate" in text)


class OperationalError(Exception):
    """As SQLAlchemy names errors of databases, most of which pass."""


@pytest.mark.parametrize("lake", [IcebergHarness, PaimonHarness], ids=["iceberg", "paimon"])
@pytest.mark.parametrize(
    "error",
    [
        OperationalError("(sqlite3.OperationalError) database or disk is full"),
        OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"),
        RuntimeError("Paimon hitting unexpected error IO operation failed: Unexpected (temporary) => no storage space"),
    ],
)
def test_a_full_disk_stops_the_run_and_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Callable[..., Any], error: Exception
) -> None:
    refused = _refused(lake(tmp_path), error, monkeypatch)
    assert (type(refused), refused.message) == (SinkError, str(error))
    assert "free some space" in refused.hint


@pytest.mark.parametrize("lake", [IcebergHarness, PaimonHarness], ids=["iceberg", "paimon"])
@pytest.mark.parametrize(
    "text",
    [
        "Failed to write Parquet file f.parquet: [Errno 30] Read-only file system: 'f.parquet'",
        "Failed to delete object: IO error: Stale file handle (os error 116)",
        "(sqlite3.OperationalError) attempt to write a readonly database",
    ],
)
def test_a_disk_that_refuses_is_told_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Callable[..., Any], text: str
) -> None:
    assert "mounted, writable" in _refused(lake(tmp_path), RuntimeError(text), monkeypatch).hint


@pytest.mark.parametrize(
    "text",
    [
        "Failed to load snapshot: Server error: <html>500</html>",
        "Unable to process: <html>504</html>",
        "rest exception (Expecting value: line 1 column 1 (char 0))",
    ],
)
def test_a_proxy_before_paimon_s_rest_catalog_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert isinstance(_refused(PaimonHarness(tmp_path), RuntimeError(text), monkeypatch), SinkUnavailable)


def _refused(harness: Any, error: Exception, monkeypatch: pytest.MonkeyPatch) -> SinkError:
    """What a sink says when its catalog raises an error at a CREATE TABLE."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(harness.catalog.open(), "create_table", fail)
    with pytest.raises(SinkError) as raised:
        harness.sink().apply(0, [CreateTable(T, SCHEMA)])
    return raised.value


def test_a_column_that_the_table_alone_has_and_requires() -> None:
    """As in a table that Spark or Flink created; a NULL for it was reported as one of the key."""
    columns = [LakeColumn("id", "int", False, pa.int32()), LakeColumn("loaded", "int", False, pa.int32())]
    with pytest.raises(SinkError, match="column loaded is NOT NULL in the table, and the source has no such column"):
        check_columns(T, SCHEMA, columns)
    with pytest.raises(SinkError, match="a value of loaded is NULL") as raised:
        as_stored(T, pa.record_batch({"id": pa.array([1], pa.int32())}), columns)
    assert "outside the key nullable" in str(raised.value.hint)
