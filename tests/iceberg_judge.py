"""Rows of an Iceberg table as DuckDB's extension reads them: another reader than the library that writes.

The extension is for another DuckDB than ours, so both are in a folder of their own (`make services`), and read in a
process of their own.
"""

from __future__ import annotations

import sys
from typing import Any

from reading_process import ReadingProcess
from servers import missing

from cdc_services.iceberg import install

_SCRIPT = """
import sys, pathlib, pickle, traceback
folder, = sys.argv[1:]
sys.path.insert(0, folder)
import duckdb
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")  # it is on in a process without a main file, and goes to stdout
for name in ("avro", "iceberg"):
    path, = pathlib.Path(folder).glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
    con.execute(f"LOAD '{path}'")
for line in sys.stdin:
    try:
        path, _, where = line.rstrip("\\n").removeprefix("file://").partition("\\t")
        found = con.execute("SELECT * FROM iceberg_scan(?)" + (where and " WHERE ") + where, [path])
        names = [item[0] for item in found.description]
        answer = [dict(zip(names, row)) for row in found.fetchall()]
    except Exception:
        answer = traceback.format_exc()
    pickle.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


class Judge(ReadingProcess):
    """A process of DuckDB; one table after another."""

    def __init__(self) -> None:
        folder = install.installed()
        if folder is None:
            missing("iceberg", "DuckDB's Iceberg extension is not installed: make services")
        super().__init__([sys.executable, "-S", "-c", _SCRIPT, str(folder)])


def duckdb_rows(metadata_location: str) -> list[dict[str, Any]]:
    """All rows of the table's newest snapshot, by a process for this question alone."""
    with Judge() as judge:
        return judge.rows(metadata_location)
