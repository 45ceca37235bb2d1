"""Where tests get a StarRocks from, in this order, and a plain client of its HTTP ports:

1. an address: `CDC_TEST_STARROCKS=starrocks://user:password@host:sql_port?http=8030&be_http=8040`;
2. Docker through testcontainers, when `CDC_TEST_STARROCKS=docker`: the image brings front end and back end in one;
3. else the stand-in of `cdc_standins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from load_servers import Answer, LoadServer, own, shared

STRICT = {"strict_mode": "true"}
_IMAGE = "starrocks/allin1-ubuntu:3.5-latest"


@dataclass(slots=True)
class StarRocksServer(LoadServer):
    """A StarRocks to test with. `standin` is there when it is ours: then faults and restarts are possible."""

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
        port: int | None = None, login: tuple[str, str] | None = None, follow: bool = True,
    ) -> Answer:  # fmt: skip
        """One request to the front end, or to `port`; redirects are followed, with the body sent only at the end."""
        where, sent = port or self.http_port, {"Expect": "100-continue", **(headers or {})}
        answer = self.request(where, method, path, sent, None if where == self.http_port else body, login)
        if answer.status != 307 or not follow:
            return answer
        target = urlsplit(answer.headers["Location"])
        path = target.path + (f"?{target.query}" if target.query else "")
        return self.send(method, path, headers, body, port=target.port, login=login)

    def transaction(
        self, operation: str, database: str, label: str, table: str = "t", body: bytes = b"", **headers: str
    ) -> Answer:
        """A step of a transaction: begin, load, prepare, commit or rollback."""
        named = {name.replace("__", "-"): value for name, value in {**STRICT, **headers}.items()}
        method = "PUT" if operation == "load" else "POST"
        where = {"db": database, "label": label, "table": table}
        return self.send(method, f"/api/transaction/{operation}", {**where, **named}, body)

    def load(self, database: str, body: bytes, table: str = "t", **headers: str) -> Answer:
        """A plain stream load."""
        return self.send("PUT", f"/api/{database}/{table}/_stream_load", {**STRICT, **headers}, body)

    def state(self, database: str, label: str) -> str:
        """The state of a label."""
        return str(self.send("GET", f"/api/{database}/get_load_state?label={label}")["state"])


def shared_starrocks() -> AbstractContextManager[StarRocksServer]:
    """A server that all tests of the session share: use `new_database`, never stop it, arm no faults."""
    return shared(StarRocksServer, "starrocks", _IMAGE)


own_starrocks = partial(own, StarRocksServer, "starrocks")
