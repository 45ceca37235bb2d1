"""Checks that the master of a standalone cluster can be reached, before Spark is started. Driver, once per session.

Spark itself tries for a minute, and fails with "Cannot call methods on a stopped SparkContext".
"""

from __future__ import annotations

import re
import socket

from cdc.errors import EngineError
from cdc.retry import RetryPolicy

_STANDALONE = "spark://"
_ADDRESS = re.compile(r"\[?([^\]]+?)\]?:(\d+)")
_CONNECT_S = 5.0
_TRIES_S = 20.0
_PAUSE_S = 1.0


def check_master(master: str, tries_s: float = _TRIES_S) -> None:
    """Raise EngineError if no master of a `spark://host:port,host:port` URL accepts a connection for `tries_s` seconds.

    Other kinds of masters are not checked.
    """
    if not master.startswith(_STANDALONE):
        return
    policy = RetryPolicy()
    addresses = [_address(each) for each in master.removeprefix(_STANDALONE).split(",")]
    left_s = tries_s
    while reasons := [f"{host}:{port}: {why}" for host, port in addresses if (why := _refusal_reason(host, port))]:
        if len(reasons) < len(addresses):
            return
        if left_s <= 0:
            raise EngineError(
                f"the Spark master does not answer: {'; '.join(reasons)}",
                where=master,
                hint="start it, or check --master and the network between this machine and that one (docs/cluster.md)",
            )
        policy.wait(_PAUSE_S)
        left_s -= _PAUSE_S


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise EngineError(f"{text!r} is not host:port", where="--master", hint="write spark://host:7077, for example")
    return match[1], int(match[2])


def _refusal_reason(host: str, port: int) -> str:
    """Why the address does not accept a connection; empty if it does."""
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
