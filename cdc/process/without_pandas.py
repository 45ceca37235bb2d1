"""Keeps libraries from loading pandas needlessly.

If pandas is installed, PyArrow imports it when it first converts a Python value, and PySpark when it creates a session
(by way of its test tools). That takes 0.7 seconds in each of a pipeline's processes, none of which uses pandas.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa


class _Hider(threading.local):
    """An import finder that reports pandas as not installed, to threads that requested that.

    It is never removed from `sys.meta_path`: a thread in the middle of an import iterates over that list by position,
    and would skip a finder, and so miss its module, if an entry before that position was removed.
    """

    blocks = 0

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas" and self.blocks:
            raise ModuleNotFoundError("hidden from this library", name=name)


_hider: Any = _Hider()
sys.meta_path.insert(0, _hider)


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """Context manager: this thread cannot import pandas, unless it is loaded already; other threads can."""
    _hider.blocks += 1
    try:
        yield
    finally:
        _hider.blocks -= 1


def hide_pandas() -> None:
    """Let PyArrow find that pandas is missing, which it checks once per process. Other code can import pandas.

    Any process, as often as one likes; without effect where pandas is loaded already.
    """
    with pandas_hidden():
        pa.scalar(0)
