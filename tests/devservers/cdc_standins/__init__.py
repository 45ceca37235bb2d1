"""Stand-ins: small servers of our own that speak the protocols of Doris and StarRocks, strict, with faults on demand.

For tests of the sinks, and for users who want to try a pipeline without a cluster (`cdc dev doris`). A stand-in is one
process with four ports on the loopback interface: the front end's HTTP (which redirects loads), a back end's HTTP, the
front end's MySQL protocol, and a control port of our own. It keeps everything in one folder and survives `kill -9`.

    standin = start_doris(folder)            # or start_starrocks(folder); root has no password unless root_password=...
    standin.query("CREATE DATABASE d")
    standin.fault("be.load.done", action="cut")    # the next load takes effect, and its answer is lost
    standin.kill(); standin.restart()        # the same folder, the same ports
    standin.stop()

The parts, each of use to both servers:

    http_server   `HttpServer(name, handler)`: threads, `Expect: 100-continue` sent when the handler first reads the
                  body, bodies streamed, answers without reading the body
    sql_server    `SqlServer(name, accounts)`: MySQL protocol, mysql_native_password, text results
    sql_text      `tokens(sql)`, `Parser`: what the DDL parsers are made of; `to_duckdb(sql)`: a query for DuckDB
    journal       `Journal`: durable JSON documents by kind and key (transactions, tables, users, jobs), atomic groups
    data          `Data`: rows of tables in DuckDB, staged rows of prepared transactions in Parquet, publishing
    faults        `Faults`: points of the protocol where a test arms an action (cut, status, slow, kill, ...)
    clock         `Clock`: wall-clock time that a test can move forward
    process       `StandIn`: starts, kills and restarts the process; `python -m cdc_standins` is its other end

A server `X` is a package `cdc_standins.X` with a module `server` that has `build(context: Context) -> Parts`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc_standins.process import StandIn, start

__all__ = ["StandIn", "start", "start_doris", "start_starrocks"]


def start_doris(folder: Path, **options: Any) -> StandIn:
    """Start a Doris stand-in in its own process; returns when it answers. Stop it with `stop()` or use `with`.

    Options: `root_password` (default ""), `count_only` (default False: loads are counted, not stored), and the ports
    `http_port`, `be_http_port`, `sql_port`, `control_port` (default 0: any free one). More: `doris.server.DEFAULTS`.
    """
    return start("doris", folder, **options)


def start_starrocks(folder: Path, **options: Any) -> StandIn:
    """Start a StarRocks stand-in in its own process; as `start_doris`."""
    return start("starrocks", folder, **options)
