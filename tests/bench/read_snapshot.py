"""The snapshot's reader on one table of a live server: a SELECT of all rows to Arrow columns, in one process.

Run as a script it prints one line of JSON, as the other readers do. `snapshot_read` is what `run.py` calls. The kernels
are loaded, and run once over a thousand rows, before the clock starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reader import Address, Watch

from cdc.schema import TableId
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import ResultStream

if TYPE_CHECKING:
    from readers import Bench


def snapshot_read(bench: Bench, table: str, rows: int) -> dict[str, Any]:
    """Median of `bench.repeat` runs over a table of that many rows: rows/s, CPU s per million rows, peak RSS."""
    from readers import address, per_million
    from spend import OtherLoad, cpu_of

    runs = []
    for _ in range(bench.repeat):
        given = json.dumps({"server": address(bench.server), "table": table})
        load, before = OtherLoad([bench.server_pid]), cpu_of(bench.server_pid)
        done = subprocess.run([sys.executable, __file__, given], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{Path(__file__).name} failed: {done.stderr.strip()[-2000:]}")
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if figures["rows"] != rows:
            raise RuntimeError(f"{figures['rows']} rows were read of {rows}")
        figures["other_cores"] = load.cores(figures["process_cpu_s"])
        figures["server_cpu_s"] = round(cpu_of(bench.server_pid) - before, 2)
        figures["rows_per_s"] = round(rows / figures["wall_s"])
        figures["cpu_s_per_million"] = per_million(figures["cpu_s"], rows)
        runs.append(figures)
    runs.sort(key=lambda run: run["cpu_s"])
    spread = [runs[0]["cpu_s_per_million"], runs[-1]["cpu_s_per_million"]]
    return {**runs[(len(runs) - 1) // 2], "runs": len(runs), "cpu_s_per_million_range": spread}


def main() -> None:
    """Read the table that argv[1] names."""
    given = json.loads(sys.argv[1])
    server, wanted = Address(**given["server"]), TableId(given["server"]["database"], given["table"])
    options = ConnectionOptions(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        tls_mode="disabled",
        key_retrieval=True,
    )
    connection = connect(options)
    table = read_tables(connection, wanted.__eq__)[wanted]
    sql = select_from(table)
    connection.query("SET SESSION character_set_results = NULL")

    def read(statement: str) -> tuple[int, int, int, float]:
        stream = ResultStream(connection, statement, str(wanted))
        reader = RowReader(table, stream.columns, Stamp(1, 0, 0), lambda name, number: None, where=str(wanted))
        size, blocks, decode_s = 0, 0, 0.0
        while (packets := stream.read()) is not None:
            started = time.perf_counter()
            for block in reader.read(packets):
                size, blocks = size + block.rows.nbytes, blocks + 1
            decode_s += time.perf_counter() - started
        for block in reader.finish():
            size, blocks = size + block.rows.nbytes, blocks + 1
        return reader.rows, size, blocks, decode_s

    read(f"{sql} LIMIT 1000")
    watch = Watch()
    rows, size, blocks, decode_s = read(sql)
    watch.report(tool="cdc snapshot", rows=rows, arrow_bytes=size, blocks=blocks, decode_s=round(decode_s, 4))
    connection.close()


if __name__ == "__main__":
    main()
