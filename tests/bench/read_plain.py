"""`read_plain.py JSON`: `SELECT *` of a table again and again, without looking at a byte, until it is ended.

What a writer notices of it is the least it can notice of anything that reads the table.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pymysql
from pymysql.constants import COMMAND

BUFFER = 1 << 20
SILENCE_S = 1.0


def main() -> None:
    given = json.loads(sys.argv[1])
    buffer = memoryview(bytearray(BUFFER))
    while True:
        connection: Any = pymysql.connect(**given["server"], ssl_disabled=True)
        connection._execute_command(COMMAND.COM_QUERY, f"SELECT * FROM {given['table']}")
        socket = connection._sock
        socket.settimeout(SILENCE_S)
        try:
            while socket.recv_into(buffer):
                pass
        except TimeoutError:
            connection._force_close()


if __name__ == "__main__":
    main()
