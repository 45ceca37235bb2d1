"""Which stores a state may be in, by the scheme of its URL."""

from __future__ import annotations

from cdc.retry import RetryPolicy
from cdc.state.remote.bucket import SCHEMES as _BUCKETS
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.hdfs import HdfsBucket

HDFS = "hdfs"
SCHEMES = (*_BUCKETS, HDFS)


def bucket_at(url: str, retry: RetryPolicy | None = None) -> Bucket:
    """The objects below a URL. See `Bucket`."""
    return (HdfsBucket if url.startswith(f"{HDFS}://") else Bucket)(url, retry)


def example(scheme: str) -> str:
    """The beginning of a URL of this kind, for hints."""
    return f"{scheme}://{'namenode:8020' if scheme == HDFS else 'bucket'}"
