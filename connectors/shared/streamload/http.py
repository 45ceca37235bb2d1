"""HTTP to front ends and back ends: failover, redirects, streamed bodies. Driver and executors.

A front end (FE) does not accept a body: it answers 307 with the address of a back end (BE). So the head of a request
goes to the FE first, and the body only to the BE, with `Authorization` again. The `Location` may contain user and
password; it is parsed at once and never appears in an error.

Meaning of errors for the request:

| raised | meaning |
|---|---|
| SinkUnavailable | it was not executed: no server reached, or the connection broke before the body was complete |
| CommitUnknown | everything was sent and no answer came: query the state of the label |
| SinkError | TLS, credentials, an unusable address: not retryable |
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cdc.errors import CdcError, CommitUnknown, SinkError, SinkUnavailable
from connectors.shared.servers import preference
from connectors.shared.servers.address import Account, Address, TimeLimits, Tls
from connectors.shared.servers.tls import is_tls_refusal, tls_hint, tls_reason
from connectors.shared.streamload.http_connection import Answer, Headers, HttpConnection
from connectors.shared.streamload.pack import Packer, Packing, packer

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 3
_SHOWN = 300
_LOST = "the state of the label tells what became of it"
_CUT = "see the server's log; the part of the batch is loaded again"

MaybeAnswer = TypeVar("MaybeAnswer", Answer, Answer | None)


@dataclass(frozen=True, slots=True)
class Servers:
    """Everything needed to reach one cluster by HTTP. Frozen and picklable.

    Attributes:
        frontends: in order of preference.
        backends: destinations of bodies that bypass the front ends; empty means by redirect.
    """

    frontends: tuple[Address, ...]
    account: Account
    backends: tuple[Address, ...] = ()
    tls: Tls = field(default_factory=Tls)
    limits: TimeLimits = field(default_factory=TimeLimits)


class HttpClient:
    """Sends requests to one cluster, each on its own connection, tried once with every server.

    Thread-safe and picklable.
    """

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._turn = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HttpClient], tuple[Servers]]:
        return HttpClient, (self.servers,)

    def request(
        self, method: str, path: str, headers: Headers | None = None, body: bytes = b"", *, repeatable: bool = False
    ) -> Answer:
        """Send a request to a front end and return its answer, after redirects.

        Any status is an answer: see `check_status`.

        Args:
            path: with its query, percent-encoded.
            headers: besides Host, Authorization and Content-Length.
            repeatable: the request is idempotent, so if its answer is lost it is sent again, to the next front end.

        Raises SinkUnavailable, CommitUnknown (never when repeatable) or SinkError.
        """
        heads = {**(headers or {}), "Content-Length": str(len(body))}

        def exchange(connection: HttpConnection, target: str) -> Answer:
            connection.send_head(method, target, self._with_authorization(heads))
            if body:
                connection.send(body)
            return connection.answer()

        last: CdcError | None = None
        for frontend in preference.in_order(self.servers.frontends):
            try:
                connection, answer = self._follow(frontend, path, exchange, CommitUnknown)
                connection.close()
                preference.note_answered(self.servers.frontends, frontend)
                return answer
            except SinkUnavailable as error:
                last = error
            except CommitUnknown as error:
                if not repeatable:
                    raise
                last = error
        raise _unavailable(last)

    def upload(self, path: str, headers: Headers, packing: Packing = "") -> Upload:
        """Start a PUT whose body is written in pieces: to a back end of `servers`, or the one named by a front end.

        `packing`: the compression of the body; the headers must state it. Returns when the server has sent `100
        Continue` or an answer instead (`Upload.early`). Raises SinkUnavailable or SinkError; nothing was loaded then.
        """
        heads = {**headers, "Transfer-Encoding": "chunked", "Expect": "100-continue"}

        def exchange(connection: HttpConnection, target: str) -> Answer | None:
            connection.send_head("PUT", target, self._with_authorization(heads))
            return connection.may_continue()

        last: CdcError | None = None
        for address in self._takers():
            try:
                taken = self._follow(address, path, exchange, SinkUnavailable)
                if address in self.servers.frontends:
                    preference.note_answered(self.servers.frontends, address)
                return Upload(*taken, packer(packing))
            except SinkUnavailable as error:
                last = error
        raise _unavailable(last)

    def fetch(self, url: str) -> str:
        """Return the text at a URL that a server gave for users, without our credentials; empty on any error."""
        try:
            address, path = _target(Answer(307, {"location": url}, b"", ""), self.servers.frontends[0])
            connection = self._connect(address, False)
            try:
                connection.send_head("GET", path, {})
                return connection.answer().text
            finally:
                connection.close()
        except (OSError, SinkError):
            return ""

    def _with_authorization(self, headers: Headers) -> dict[str, str]:
        return {"Authorization": self.servers.account.authorization, **headers}

    def _takers(self) -> tuple[Address, ...]:
        """Return the servers to offer a body to, in order: back ends take turns."""
        backends = self.servers.backends
        if not backends:
            return preference.in_order(self.servers.frontends)
        with self._lock:
            start = self._turn % len(backends)
            self._turn += 1
        return backends[start:] + backends[:start]

    def _follow(
        self,
        address: Address,
        path: str,
        exchange: Callable[[HttpConnection, str], MaybeAnswer],
        broken: type[SinkUnavailable] | type[CommitUnknown],
    ) -> tuple[HttpConnection, MaybeAnswer]:
        """Exchange with a server and those it redirects to; the connection stays open.

        `broken`: error for an incomplete answer.
        """
        secure = address.secure
        for _ in range(_MOST_REDIRECTS + 1):
            connection = self._connect(address, secure)
            try:
                answer = exchange(connection, path)
            except OSError as error:
                connection.close()
                raise broken(f"no answer from the server: {_reason(error)}", where=str(address), hint=_LOST) from None
            except BaseException:
                connection.close()
                raise
            if answer is None or answer.status not in _REDIRECTS:
                return connection, answer
            connection.close()
            address, path = _target(answer, address)
        raise SinkError("endless redirects", where=str(address), hint="check the addresses of the front ends")

    def _connect(self, address: Address, secure: bool) -> HttpConnection:
        where, tls = str(address), self.servers.tls
        if secure and not address.secure and not tls.plain_backends:
            hint = "give the back ends TLS, or allow it with sink.tls.plain-backends: true"
            raise SinkError(
                "the front end is reached over TLS but redirects to a plain address", where=where, hint=hint
            )
        try:
            return HttpConnection(address, tls, self.servers.limits)
        except OSError as error:
            if is_tls_refusal(error):
                hint = tls_hint(error, "check the certificate, sink.tls.ca and the port")
                raise SinkError(f"no TLS connection: {tls_reason(error)}", where=where, hint=hint) from None
            hint = "check that it runs and that this machine may connect to it; the front end names the back ends"
            raise SinkUnavailable(f"cannot be reached: {_reason(error)}", where=where, hint=hint) from None


class Upload:
    """A PUT in progress. One thread at a time. Always leave it with `finish` or `cancel`.

    Attributes:
        early: the server's answer if it came before the body was complete; nothing more can be written then.
        sent_bytes: bytes of the body sent.
    """

    def __init__(self, connection: HttpConnection, early: Answer | None, packer: Packer) -> None:
        self._connection, self.early, self._packer = connection, early, packer
        self.sent_bytes = 0
        if early is not None:
            connection.close()

    def write(self, data: bytes | memoryview) -> bool:
        """Send a piece of the body. Returns False when the server has answered instead: see `early`.

        Raises SinkUnavailable when the connection broke: the server discards an incomplete body.
        """
        return self.early is None and self._write(self._packer.pack(data))

    def _write(self, data: bytes | memoryview) -> bool:
        try:
            if not self._connection.answered_early():
                self._connection.send_chunk(data)
                self.sent_bytes += len(data)
                return True
        except OSError as error:
            if self._read_early():
                return False
            self._connection.close()
            raise SinkUnavailable(
                f"the connection broke after {self.sent_bytes} bytes: {_reason(error)}", where=self.server, hint=_CUT
            ) from None
        if not self._read_early():
            self._connection.close()
            raise SinkUnavailable(f"the connection was closed after {self.sent_bytes} bytes", where=self.server)
        return False

    def finish(self) -> Answer:
        """End the body and wait for the answer.

        Raises CommitUnknown when none came: the load may be done or not; SinkUnavailable as `write`.
        """
        if self.early is None:
            self._write_rest()
        if self.early is not None:
            return self.early
        try:
            self._connection.end_chunks()
            return self._connection.answer()
        except OSError as error:
            if self._read_early() and self.early is not None:
                return self.early
            reason = f"no answer to a whole load of {self.sent_bytes} bytes: {_reason(error)}"
            raise CommitUnknown(reason, where=self.server, hint=_LOST) from None
        finally:
            self._connection.close()

    def _write_rest(self) -> None:
        rest = self._packer.end()
        if rest:
            self._write(rest)

    def cancel(self) -> None:
        """Abort: the server discards what it received. May be called after `finish`, and from another thread."""
        self._connection.close()

    @property
    def server(self) -> str:
        """The server that receives the body, without credentials."""
        return self._connection.server

    def _read_early(self) -> bool:
        try:
            self.early = self._connection.answer()
        except (OSError, ValueError):
            return False
        self._connection.close()
        return True


def check_status(answer: Answer) -> Answer:
    """Return the answer if its HTTP status is 2xx.

    Raises SinkError (401, 403, 404 and other 4xx), SinkUnavailable (5xx).
    """
    if 200 <= answer.status < 300:
        return answer
    text = " ".join(answer.text.split())[:_SHOWN]
    message = f"HTTP {answer.status}: {text}" if text else f"HTTP {answer.status}"
    if answer.status in (401, 403):
        hint = "check sink.username and sink.password, and that the account has LOAD on the table"
        raise SinkError(f"access denied ({message})", where=answer.server, hint=hint)
    if answer.status >= 500 or answer.status in (408, 429):
        raise SinkUnavailable(f"the server failed ({message})", where=answer.server, hint="see the server's log")
    raise SinkError(f"the server refused the request ({message})", where=answer.server, hint="check address and port")


def json_object(answer: Answer) -> dict[str, Any]:
    """Parse the JSON object of an answer.

    Raises as `check_status`, and SinkUnavailable for anything else, such as the page of a proxy: what became of the
    request is not known.
    """
    try:
        found = json.loads(check_status(answer).text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        text = " ".join(answer.text.split())[:_SHOWN]
        hint = "see a proxy before the server, and that the addresses in the file are HTTP ports of front ends"
        raise SinkUnavailable(f"an answer without JSON, as of a proxy: {text!r}", where=answer.server, hint=hint)
    return found


def _target(answer: Answer, requested: Address) -> tuple[Address, str]:
    """Return the target of a redirect. Its user and password, and its text itself, are never passed on."""
    location = answer.headers.get("location", "")
    scheme, mark, rest = location.partition("://")
    if not mark and location.startswith("/"):
        return requested, location
    end = rest.find("/api/")
    end = rest.find("/") if end < 0 else end
    authority, path = (rest, "/") if end < 0 else (rest[:end], rest[end:])
    try:
        port = 443 if scheme.lower() == "https" else 80
        address = Address.parse(f"{scheme}://{authority.rpartition('@')[2]}", default_port=port)
    except ValueError:
        hint = "check that the address is a front end's HTTP port"
        raise SinkError("the server redirects to an invalid address", where=str(requested), hint=hint) from None
    return address, path


def _reason(error: OSError) -> str:
    """Return the operating system's reason, without the address that `where` already has."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error) or type(error).__name__


def _unavailable(last: CdcError | None) -> SinkUnavailable:
    if isinstance(last, SinkUnavailable):
        return last
    if last is not None:
        return SinkUnavailable(last.message, where=last.where, hint=last.hint)
    return SinkUnavailable("no server is named", hint="name a front end")
