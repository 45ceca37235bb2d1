"""Loads the kernels that read results, by reading two rows; compiles them if no cached code fits this machine."""

from __future__ import annotations

import numpy as np

from cdc.schema import TableId
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.warm import warm_kernels as warm_decoder
from connectors.mysql.snapshot.read.kernels import packets, protocol
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_stream import ResultColumn, RowPackets
from connectors.mysql.table import MySqlColumn, MySqlTable

_TABLE = MySqlTable(
    TableId("warm", "up"), (MySqlColumn("id", "int"), MySqlColumn("note", "varchar", 20, charset="latin1"))
)
_COLUMNS = (ResultColumn("id", codes.LONG, False), ResultColumn("note", codes.VAR_STRING, False))
_ROW = b"\0\0\1\0\0\0\2ab"
_END = b"\xfe\0\0\2\0"
_SLACK = 64


def warm_kernels(*, snapshots: bool) -> None:
    """Load the kernels that decode the log and, with `snapshots`, those that read chunks."""
    warm_decoder()
    if snapshots:
        warm_snapshot_kernels()


def warm_snapshot_kernels() -> int:
    """Split and read two rows; returns their number. Executor; a repeat is free."""
    answer = b"".join(
        len(body).to_bytes(3, "little") + bytes([number]) + body for number, body in enumerate((_ROW, _ROW, _END))
    )
    buffer = np.frombuffer(bytearray(answer + bytes(_SLACK)), np.uint8)
    starts, ends, state = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(protocol.SPLIT_STATE, np.int64)
    count = packets.split_packets(address(buffer), len(answer), address(state), address(starts), address(ends), 0, 4)
    reader = RowReader(_TABLE, _COLUMNS, Stamp(1, 0, 0), lambda reason, number: None, where="warm")
    return sum(map(len, reader.blocks([RowPackets(buffer, starts, ends, int(count))])))
