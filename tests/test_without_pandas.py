"""PyArrow leaves pandas alone, and nobody else has to."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import importlib, pkgutil, sys
for name in ("cdc.flow", "cdc.transform", "connectors"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        importlib.import_module(module.name)
print("pandas" in sys.modules)
import pyarrow as pa
import pyarrow.compute as pc
from cdc.without_pandas import keep_pandas_out
keep_pandas_out()
keep_pandas_out()
assert pc.equal(pa.array([1, 2]), 1).to_pylist() == [True, False]
assert pa.table({"a": [1, None]}).num_rows == 2
print("pandas" in sys.modules)
import pandas
keep_pandas_out()
print(pandas.Series([1, 2]).sum())
"""


@pytest.mark.slow
def test_neither_imports_nor_arrow_values_load_pandas() -> None:
    """A worker imports what it is sent before anything can be told to PyArrow, so no import makes Arrow values."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "3"]
