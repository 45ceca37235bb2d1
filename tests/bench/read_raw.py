"""The least any reader can do: ask for the log and take the bytes off the socket, looking at none of them.

The number of bytes is known: the range's own, and for each event a packet header of 4 bytes and a status byte.
"""

from __future__ import annotations

import struct
from typing import Any

import pymysql
from reader import Watch, arguments

SERVER_ID = 990_002
BUFFER = 8 << 20
PACKET_BYTES = 5


def main() -> None:
    server, _, timed = arguments()
    connection: Any = pymysql.connect(
        host=server.host, port=server.port, user=server.user, password=server.password, ssl_disabled=True
    )
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")
    command = b"\x12" + struct.pack("<IHI", timed.start, 0, SERVER_ID) + timed.file.encode()
    socket = connection._sock
    socket.settimeout(30)
    buffer = memoryview(bytearray(BUFFER))
    left = timed.end - timed.start + PACKET_BYTES * timed.events
    watch = Watch()
    socket.sendall(struct.pack("<I", len(command)) + command)
    while left > 0:
        got = socket.recv_into(buffer)
        if not got:
            raise ConnectionError("the server closed the connection")
        left -= got
    watch.report(tool="raw drain", rows=timed.rows)
    socket.close()


if __name__ == "__main__":
    main()
