"""Objects in a real S3 server, and what is said when it refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from obstore.exceptions import GenericError
from together import together

from cdc.errors import StateError, StateUnavailable
from cdc.retry import RetryPolicy
from cdc.state.remote.bucket import Bucket, refusal
from cdc.state.remote.run import hold_working_copy
from cdc.state.remote.store import store_at

if TYPE_CHECKING:
    from s3_server import S3Server

ONCE = RetryPolicy(timeout_s=0.0)


def test_an_object_is_put_once_and_replaced_only_where_it_is_known(s3: S3Server) -> None:
    bucket = Bucket(f"{s3.new_bucket()}/some/prefix", ONCE)
    assert bucket.put_new("log/1", b"a")
    assert not bucket.put_new("log/1", b"b")
    found = bucket.get_tagged("log/1")
    assert found is not None
    assert found[0] == b"a"
    tag = bucket.put_if_match("log/1", b"c", found[1])
    assert tag is not None
    assert bucket.put_if_match("log/1", b"d", found[1]) is None
    assert bucket.put_if_match("log/1", b"d", tag) is not None
    assert bucket.get("log/1") == b"d"
    assert bucket.get("log/2") is None
    assert bucket.put_if_match("log/2", b"d", tag) is None


def test_objects_are_listed_downloaded_and_removed(s3: S3Server, tmp_path: Path) -> None:
    bucket = Bucket(f"{s3.new_bucket()}/p", ONCE)
    (tmp_path / "rows").write_bytes(b"r" * 100_000)
    bucket.put("bulk/1/rows", tmp_path / "rows")
    bucket.put("bulk/2", b"")
    assert bucket.names("bulk") == ["bulk/1/rows", "bulk/2"]
    bucket.download("bulk/1/rows", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"r" * 100_000
    bucket.delete([*bucket.names("bulk"), "bulk/none"])
    assert bucket.names("bulk") == []


def test_what_is_not_there_need_not_be_removed_from_a_store_that_minds(tmp_path: Path) -> None:
    bucket = Bucket(tmp_path.as_uri(), ONCE)  # which minds, as Azure's and Google's do
    for name in ("log/1", "log/2", "log/4"):
        bucket.put(name, b"a")
    bucket.delete(["log/1", "log/2", "log/3", "log/4"])
    assert bucket.names("log") == []
    bucket.delete(["log/3"])


def test_a_state_is_continued_in_another_folder(s3: S3Server, tmp_path: Path) -> None:
    url = f"{s3.new_bucket()}/shop"
    for number, folder in enumerate("abc"):
        with hold_working_copy(url, tmp_path / folder, ONCE):
            log = store_at(tmp_path / folder).within("source").log("l", "log")
            assert log.append({"n": number}) == number + 1


def test_a_missing_bucket_is_named(s3: S3Server, tmp_path: Path) -> None:
    told = r"^s3://no-such-bucket/p: there is no such bucket \(create it"
    with pytest.raises(StateError, match=told), hold_working_copy("s3://no-such-bucket/p", tmp_path, RetryPolicy()):
        pytest.fail("it began")


def test_credentials_that_nobody_gives_are_not_waited_for() -> None:
    away = GenericError("the credential provider was not enabled")
    with patch("obstore.list", side_effect=away), pytest.raises(StateError, match="no credentials") as met:
        Bucket("memory:///p", RetryPolicy(timeout_s=600.0)).check()
    assert not met.value.retryable


@pytest.mark.slow
def test_a_server_that_is_away_is_waited_for_as_long_as_the_policy_says(s3: S3Server) -> None:
    slept: list[float] = []
    policy = RetryPolicy(timeout_s=60.0, clock=lambda: sum(slept), sleep=slept.append)
    with patch.dict(os.environ, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}):
        bucket = Bucket("s3://away/p", policy)
        with pytest.raises(StateUnavailable, match=r"the state cannot be read: .*check the store and the network"):
            bucket.get("lock")
    assert 50 < sum(slept) < 70


@together(
    "text, kind, told",
    [
        ("Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>", StateError, "access denied"),
        ("Server returned error response: 503 Service Unavailable: slow down", StateUnavailable, "503"),
        ("the credential provider was not enabled", StateUnavailable, "no credentials"),
        ("GET http://169.254.169.254/latest/token: 403 Forbidden", StateUnavailable, "no credentials"),
        ("error sending request\nInvalidCertificate(\n ExpiredContext {", StateUnavailable, "refused: Expired"),
        ("error sending request\n\nDebug source: InvalidCertificate(UnknownIssuer)", StateUnavailable, "UnknownIssuer"),
        ("error sending request for PUT https://a/b?sig=s3cr3t&se=1 in 3 ms", StateUnavailable, "error sending"),
    ],
)  # fmt: skip
def test_what_a_refusal_means(text: str, kind: type[StateError], told: str) -> None:
    error = refusal("s3://b/p", "lock", "written", GenericError(text))
    assert type(error) is kind
    assert told in str(error)
    assert "s3cr3t" not in str(error)
