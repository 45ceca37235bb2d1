"""The server of the sink, looked at before a run. Driver, for `cdc doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.errors import SinkError
from cdc.finding import Finding, error, ok, warning
from connectors.mysql.sink.fence import Fence
from connectors.mysql.sink.session import SinkSession


def examine(session: SinkSession, fence: Fence) -> Iterator[Finding]:
    """Version, LOAD DATA LOCAL, whether commits survive a crash of the server, and whether they can be noted."""
    yield ok("version", f"{session.flavor} {session.version}")
    yield from _examine_files(session)
    yield from _examine_durability(session)
    try:
        fence.create()
        yield ok("fence", f"{fence.database}.commits can be written")
    except SinkError as refused:
        yield error("fence", refused.message, refused.hint)


def _examine_files(session: SinkSession) -> Iterator[Finding]:
    if session.local_files:
        yield ok("load", "rows are written by LOAD DATA LOCAL")
    elif session.flavor == "oceanbase":
        yield ok("load", "rows are written by INSERT: LOAD DATA is no part of a transaction in OceanBase")
    else:
        hint = "SET GLOBAL local_infile = ON makes large batches 2 to 5 times faster"
        yield warning("load", "local_infile is OFF: rows are written by INSERT", hint)


def _examine_durability(session: SinkSession) -> Iterator[Finding]:
    if session.flavor == "oceanbase":
        return
    flush = int(session.rows("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")[0][0])
    if flush == 1:
        yield ok("durability", "a commit survives a crash of the server")
    else:
        hint = "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
        yield warning("durability", f"innodb_flush_log_at_trx_commit is {flush}: a crash may forget commits", hint)
