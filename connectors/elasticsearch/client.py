"""HTTP client of a cluster: several hosts, TLS, login, time limits, and the errors of a sink.

No official client works with both products, so this one is built on urllib3. Used in driver and executors.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import urllib3

from cdc.errors import SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from connectors.shared.servers import preference
from connectors.shared.servers.tls import is_tls_refusal, tls_hint, tls_reason

_AGAIN = frozenset({408, 429, 502, 503, 504})
_DENIED = frozenset({401, 403})
_TOO_LARGE = 413
_LONGEST_ANSWER = 2_000


class ErrorAnswer(Exception):
    """Raised for an error answer: its HTTP status, and the server's name (`kind`) and text (`reason`) for the error."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(f"{reason or kind} (HTTP {status})")
        self.status, self.kind, self.reason = status, kind, reason


@dataclass(frozen=True, slots=True)
class Login:
    """The credentials, as headers of every request; its repr does not show them."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SearchClient:
    """Client of one cluster. Thread safe and picklable; each process makes its own pool of connections."""

    hosts: tuple[str, ...]
    login: Login
    connections: int = 3
    timeout_s: float = 120.0
    ca: str | None = None
    verify: bool = True
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    def request(self, method: str, path: str, body: Any = None, *, wait: bool = True) -> Any:
        """Send a request whose `body` becomes JSON, and return the JSON of the answer.

        Waits for a cluster that is away unless `wait` is false. Raises ErrorAnswer for an error answer, SinkError for
        a refused login, SinkUnavailable.
        """
        text = None if body is None else json.dumps(body).encode()
        return self.send(method, path, text, "application/json", wait=wait)

    def send(self, method: str, path: str, body: bytes | None, kind: str, *, wait: bool = True) -> Any:
        """Send a request like `request`, with a body that is text of the content type `kind` already."""

        def once() -> Any:
            return self._request_once(method, path, body, kind)

        return self.retry.call(once, "a request to the sink") if wait else once()

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        secure: dict[str, Any] = {"cert_reqs": "CERT_REQUIRED" if self.verify else "CERT_NONE", "ca_certs": self.ca}
        timeout = urllib3.Timeout(connect=min(self.timeout_s, 10.0), read=self.timeout_s)
        if not self.verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return urllib3.PoolManager(maxsize=self.connections, timeout=timeout, retries=False, **secure)

    def _request_once(self, method: str, path: str, body: bytes | None, kind: str) -> Any:
        last: SinkError | None = None
        for host in preference.in_order(self.hosts):
            try:
                answer = self._pool.request(
                    method, f"{host}{path}", body=body, headers={**self.login.headers, "Content-Type": kind},
                    redirect=False,
                )  # fmt: skip
            except urllib3.exceptions.HTTPError as error:
                last = _no_answer(error, host)
                continue
            if answer.status in _AGAIN:
                last = _busy_error(answer, host)
                continue
            preference.note_answered(self.hosts, host)
            return self._parse_answer(host, path, answer.status, answer.data)
        raise last or SinkUnavailable("no host is named", hint="name one in sink.hosts")

    def _parse_answer(self, host: str, path: str, status: int, data: bytes) -> Any:
        found = _parsed(data)
        if 200 <= status < 300 and found is not None:
            return found
        kind, reason = _reason(found)
        if status in _DENIED and kind not in ("cluster_block_exception", "index_closed_exception"):
            hint = "check sink.username, sink.password or sink.api-key, and the privileges of that user"
            raise SinkError(
                f"access denied: {reason or kind or 'no reason given'} (HTTP {status})", where=host, hint=hint
            )
        if found is not None or status == _TOO_LARGE:  # which proxies say in HTML
            raise ErrorAnswer(status, kind, reason)
        hint = "check sink.hosts: another program may listen there"
        if status >= 500 or not data or path != "/":  # else the first request says that no cluster listens there
            raise SinkUnavailable(f"an answer without JSON, as of a proxy (HTTP {status})", where=host, hint=hint)
        message = f"the server is neither Elasticsearch nor OpenSearch (HTTP {status})"
        raise SinkError(message, where=host, hint=hint)


def _parsed(data: bytes) -> Any:
    """The JSON value of an answer; None if it has none, as that of a proxy."""
    with suppress(ValueError):
        return json.loads(data)
    return None


def _reason(found: Any) -> tuple[str, str]:
    """The name and the text that the server gives an error."""
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        return str(error.get("type") or ""), str(error.get("reason") or "")[:_LONGEST_ANSWER]
    return "", str(error or "")[:_LONGEST_ANSWER]


def _busy_error(answer: urllib3.BaseHTTPResponse, host: str) -> SinkUnavailable:
    """The error for an answer, with or without JSON, by which a server or a proxy before it says to try again later."""
    kind, reason = _reason(_parsed(answer.data))
    return SinkUnavailable(f"{reason or kind or 'busy'} (HTTP {answer.status})", where=host)


def _no_answer(error: urllib3.exceptions.HTTPError, host: str) -> SinkError:
    cause = error.args[0] if error.args else error
    if is_tls_refusal(cause):
        hint = "check the server's certificate, tls.ca, the name in sink.hosts and the port"
        return SinkError(f"no TLS connection: {tls_reason(cause)}", where=host, hint=tls_hint(cause, hint))
    return SinkUnavailable(f"no answer: {_plain(error)}", where=host, hint="does the server run there?")


def _plain(error: Exception) -> str:
    """The reason of an error alone, without the address and object that urllib3 puts before it."""
    return str(error).rpartition(": ")[2][:300]


def name_of(index: str) -> str:
    """The name of an index or alias, quoted for a URL's path."""
    return quote(index, safe="")
