"""python-mysql-replication on one range: every row as a dict. Runs in a venv of its own."""

from __future__ import annotations

import sys
from importlib.metadata import version

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from reader import Watch, arguments

SERVER_ID = 990_003


def main() -> None:
    server, _, timed = arguments()
    stream = BinLogStreamReader(
        connection_settings={
            "host": server.host, "port": server.port, "user": server.user, "passwd": server.password,
            "ssl_disabled": True,
        },
        server_id=SERVER_ID, resume_stream=True, log_file=timed.file, log_pos=timed.start, blocking=True,
        only_schemas=[server.database], only_tables=[timed.table],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    rows, watch = 0, Watch()
    for event in stream:
        rows += len(event.rows)
        if rows >= timed.rows:
            break
    watch.report(
        tool="python-mysql-replication", rows=rows, version=version("mysql-replication"), python=sys.version.split()[0]
    )
    stream.close()


if __name__ == "__main__":
    main()
