"""Where tests get a Doris from, in this order, and a plain client of its HTTP ports:

1. an address: `CDC_TEST_DORIS=doris://user:password@host:sql_port?http=8030&be_http=8040`;
2. Docker through testcontainers, when `CDC_TEST_DORIS=docker`: the image brings front end and back end in one;
3. else the stand-in of `cdc_standins`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pymysql
import pytest
from load_servers import Answer, LoadServer, own, shared

_IMAGE = "apache/doris:doris-all-in-one-2.1.0"
_VISIBLE_S = 300
ONE_REPLICA = "PROPERTIES ('replication_num' = '1')"
COMMA = {"column_separator": ","}


@dataclass(slots=True)
class DorisServer(LoadServer):
    """A Doris to test with. `standin` is there when it is ours: then faults and restarts are possible."""

    def eventually(self, sql: str, wanted: list[Any]) -> list[Any]:
        """The rows of a query, once they are these: publishing is asynchronous."""
        deadline = time.monotonic() + _VISIBLE_S
        while (rows := self.query(sql)) != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return rows

    def errno(self, sql: str, **login: str) -> int:
        """The number of the error that a statement must give."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.query(sql, **login)
        return int(caught.value.args[0])

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, *,
        port: int | None = None, login: tuple[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """One request to the back end, or to `port`; redirects are not followed."""
        return self.request(port or self.be_http_port, method, path, headers or {}, body, login)

    def load(
        self, db: str, body: bytes, label: str = "", table: str = "t", *, login: tuple[str, str] | None = None,
        **headers: str,
    ) -> Answer:  # fmt: skip
        """A stream load straight to the back end; a label of its own when none is given."""
        named = {"label": label or uuid4().hex, "strict_mode": "true", **COMMA, **headers}
        return self.send("PUT", f"/api/{db}/{table}/_stream_load", named, body, login=login)

    def prepare(self, db: str, body: bytes, label: str, table: str = "t", **headers: str) -> Answer:
        """A stream load that ends precommitted."""
        return self.load(db, body, label, table, two_phase_commit="true", **headers)

    def finish(self, db: str, operation: str, **headers: Any) -> Answer:
        """The second phase: `finish(db, "commit", txn_id=5)`."""
        named = {name: str(value) for name, value in headers.items()}
        return self.send("PUT", f"/api/{db}/_stream_load_2pc", {"txn_operation": operation, **named}, b"")

    def state(self, db: str, label: str) -> str:
        """The state of a label."""
        path = f"/api/{db}/get_load_state?label={quote(label)}"
        return str(self.send("GET", path, port=self.http_port)["data"])


def shared_doris() -> AbstractContextManager[DorisServer]:
    """A server that all tests of the session share: use `new_database`, never stop it, arm no faults."""
    return shared(DorisServer, "doris", _IMAGE)


own_doris = partial(own, DorisServer, "doris")
