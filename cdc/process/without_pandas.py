"""Keeps libraries from loading pandas needlessly.

PyArrow imports pandas, when it is installed, at the first Python value that it makes an Arrow value of; PySpark imports
its test tools, and those pandas, when it makes a session. That is 0.7 seconds in each of a pipeline's processes, and
none of them has a use for it.
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

    It stays in `sys.meta_path` for good: another thread that is in the middle of an import goes through that list by
    position, and would miss a finder, and with it its module, when an entry before its position went away.
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
