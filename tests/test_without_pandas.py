"""PyArrow leaves pandas alone, and nobody else has to."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import PathFinder

import pytest

from cdc.process.without_pandas import pandas_hidden

_PROGRAM = """
import importlib, pkgutil, sys
for name in ("cdc.flow", "cdc.transform", "connectors"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        importlib.import_module(module.name)
print("pandas" in sys.modules)
import pyarrow as pa
import pyarrow.compute as pc
from cdc.process.without_pandas import hide_pandas
hide_pandas()
hide_pandas()
assert pc.equal(pa.array([1, 2]), 1).to_pylist() == [True, False]
assert pa.table({"a": [1, None]}).num_rows == 2
print("pandas" in sys.modules)
import pandas
hide_pandas()
print(pandas.Series([1, 2]).sum())
"""


@pytest.mark.slow
def test_neither_imports_nor_arrow_values_load_pandas() -> None:
    """A worker imports what it is sent before anything can be told to PyArrow, so no import makes Arrow values."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "3"]


def test_a_module_is_found_when_a_block_of_another_thread_ends_in_the_middle_of_its_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An import goes through the finders by position: taking one out of the list made it miss the next."""
    block = pandas_hidden()
    block.__enter__()

    class EndsTheBlock:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            block.__exit__(None, None, None)

    finders = list(sys.meta_path)
    finders.insert(finders.index(PathFinder), EndsTheBlock)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "meta_path", finders)
    assert importlib.util.find_spec("wave") is not None
