"""How many examples a property is tried with, and how long random workloads are."""

from __future__ import annotations

import hypothesis


def trials(count: int) -> int:
    """So many in the exhaustive tier; in others three tenths of them, as `conftest.py` says."""
    return count * hypothesis.settings().max_examples // 100
