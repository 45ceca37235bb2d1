"""Helpers of this folder and of the differential tests are importable in the folders below."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(_TESTS / "differential")]
