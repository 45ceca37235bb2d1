"""Libraries that would load pandas for nothing.

PyArrow imports pandas, when it is installed, at the first Python value that it makes an Arrow value of; PySpark imports
its test tools, and those pandas, when it makes a session. That is 0.7 seconds in each of a pipeline's processes, and
none of them has a use for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa


class _Hidden:
    """Says that pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas to the import system."""
        if name == "pandas":
            raise ModuleNotFoundError("hidden from this library", name=name)


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """In the block pandas cannot be imported, unless it is loaded already."""
    finder: Any = _Hidden
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def keep_pandas_out() -> None:
    """Let PyArrow find that there is no pandas: it asks once in a process. Everything else can import it as before.

    Any process, as often as one likes; without effect where pandas is loaded already.
    """
    with pandas_hidden():
        pa.scalar(0)
