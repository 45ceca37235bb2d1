"""How many examples a property is tried with."""

from __future__ import annotations

import hypothesis


def trials(count: int) -> int:
    """So many among all tests; in the fast tier three tenths of them, as `conftest.py` says."""
    return count * hypothesis.settings().max_examples // 100
