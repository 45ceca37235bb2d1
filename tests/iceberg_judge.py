"""Rows of an Iceberg table as DuckDB's extension reads them: another reader than the library that writes.

The extension is for another DuckDB than ours, so both are in a folder of their own (`make services`), and read in a
process of their own.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from cdc_services.iceberg import install

_SCRIPT = """
import sys, json, pathlib, pickle
folder, metadata = sys.argv[1:]
sys.path.insert(0, folder)
import duckdb
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    path, = pathlib.Path(folder).glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
    con.execute(f"LOAD '{path}'")
found = con.execute("SELECT * FROM iceberg_scan(?)", [metadata])
names = [item[0] for item in found.description]
sys.stdout.buffer.write(pickle.dumps([dict(zip(names, row)) for row in found.fetchall()]))
"""


def duckdb_rows(metadata_location: str) -> list[dict[str, Any]]:
    """All rows of the table's newest snapshot."""
    folder = install.installed()
    if folder is None:
        reason = "DuckDB's Iceberg extension is not installed: make services"
        if "iceberg" in os.environ.get("CDC_REQUIRE_SERVICES", "").replace(" ", "").split(","):
            pytest.fail(f"{reason} (CDC_REQUIRE_SERVICES asks for it)", pytrace=False)
        pytest.skip(reason)
    place = metadata_location.removeprefix("file://")
    done = subprocess.run([sys.executable, "-S", "-c", _SCRIPT, str(folder), place], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    rows: list[dict[str, Any]] = pickle.loads(done.stdout)
    return rows
