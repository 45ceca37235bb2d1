"""Our decoder on one range of a live server's log, in one process: prints one line of JSON.

Before the clock starts the kernels are loaded from their cache and run over small ranges and once over the measured
one, so that the memory they fill has been written before: a long-running process has done all that long ago, as has the
JVM that is measured warm. The connection is there, too, as it is for the raw drain and for Debezium, whose clock begins
with the end of its first batch. `process_cpu_s` includes all of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
from reader import Range, Watch, arguments

from cdc.schema import TableId
from connectors.mysql.log.log_range import read_range
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.server.connection import ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.positions import LogPosition

SERVER_ID = 990_001


class Timed:
    """Seconds spent fetching (receiving, checking and indexing) and decoding."""

    def __init__(self) -> None:
        self.fetch_s = self.decode_s = 0.0
        self.chunks_read = 0

    def chunks(self, chunks: Iterator[ReceiveBuffer]) -> Iterator[ReceiveBuffer]:
        while True:
            started = time.perf_counter()
            chunk = next(chunks, None)
            self.fetch_s += time.perf_counter() - started
            if chunk is None:
                return
            self.chunks_read += 1
            yield chunk


def main() -> None:
    server, warm, timed = arguments()
    options = ConnectionOptions(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        tls_mode="disabled",
        key_retrieval=True,
    )

    ready: list[MySqlConnection] = []

    def open_stream(at: LogPosition) -> BinlogStream:
        return BinlogStream(ready.pop(), server_id=SERVER_ID, file=at.file, position=at.position)

    connection = connect(options)
    tables = read_tables(connection, lambda table: table.database == server.database)
    connection.close()

    def decode(part: Range, split: Timed) -> tuple[int, int, int]:
        wanted = TableId(server.database, part.table)
        decoder = Decoder(tables, captures=lambda table: table == wanted, count=lambda name, number: None)
        log_range = LogRange(LogPosition(part.file, part.start), LogPosition(part.file, part.end), 0)
        images = befores = size = 0
        for chunk in split.chunks(read_range(log_range, open_stream)):
            started = time.perf_counter()
            for block in decoder.decode(chunk):
                images += len(block)
                befores += int(np.count_nonzero(block.kinds.to_numpy() == 1))
                size += block.rows.nbytes
            split.decode_s += time.perf_counter() - started
        return images, images - befores, size

    for part in (*warm, timed):
        ready.append(connect(options))
        decode(part, Timed())
    ready.append(connect(options))
    split, watch = Timed(), Watch()
    images, rows, size = decode(timed, split)
    watch.report(
        tool="cdc", rows=rows, images=images, arrow_bytes=size, python=sys.version.split()[0],
        fetch_s=round(split.fetch_s, 4), decode_s=round(split.decode_s, 4), chunks=split.chunks_read,
    )  # fmt: skip


if __name__ == "__main__":
    main()
