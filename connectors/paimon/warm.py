"""Kernels that the first batch would compile."""

from __future__ import annotations

import pyarrow as pa

from connectors.paimon.buckets import bucket_numbers


def warm() -> None:
    """Compile the kernel of buckets."""
    bucket_numbers(pa.record_batch([pa.array([1]), pa.array(["a"])], names=["a", "b"]), ["a", "b"], 2)
