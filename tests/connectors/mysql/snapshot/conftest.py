"""Helpers of the neighbouring test folders are importable here too."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[3]
sys.path[:0] = [str(_TESTS / "connectors" / "mysql"), str(_TESTS / "differential")]
