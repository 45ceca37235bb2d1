"""Client of a Schema Registry with Confluent's REST interface: finds schemas by their number. Used in any process.

Temporary failures (no connection, no answer in time, 408, 429, 5xx) are retried as the policy says; other answers are
final. The schema of a number never changes, so a process asks for each only once.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import quote, urlsplit

from cdc.retry import RetryPolicy
from connectors.kafka.avro.schemas import Program, program, schema_type
from connectors.kafka.client import ErrorSide
from connectors.shared.servers.tls import is_tls_refusal, tls_hint, tls_reason

_PASSING = frozenset({408, 429})
_ANSWER_S = 10.0
_MOST_BYTES = 16 << 20
"""The most bytes of an answer; schemas with thousands of columns have less than one MiB."""
_MOST_NAMED = 256
"""How many schemas a schema may reference, directly and indirectly."""
_SHOWN = 300
_TYPES = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The address of a registry and how it is reached. Frozen and picklable; its repr has no secrets.

    Attributes:
        urls: addresses of the same registry; one that answers is enough.
        user_info: `user:password`; `token`: for `Authorization: Bearer`. Empty for no login.
        ca, certificate, key: PEM files, for TLS.
    """

    urls: tuple[str, ...]
    user_info: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


class UnreadableSchema(ValueError):
    """Raised when messages with a schema cannot be read; its text is the reason."""


_programs: dict[tuple[RegistrySettings, int, int], Program] = {}
"""The schemas that this process has asked for."""


_EIGHT = " (Apicurio's numbers of eight bytes begin so: have its converter write apicurio.registry.as-confluent: true)"


class Registry:
    """Client of one registry. Thread safe."""

    def __init__(self, settings: RegistrySettings, policy: RetryPolicy, side: ErrorSide) -> None:
        self._settings, self._policy, self._side = settings, policy, side

    def program(self, number: int, rows: int) -> Program:
        """The schema with this number; `rows` as in `program`. Raises UnreadableSchema, and the side's errors."""
        key = self._settings, number, rows
        found = _programs.get(key)
        if found is None:
            answer = self.get(f"/schemas/ids/{number}")
            if answer is None:
                raise UnreadableSchema(f"the registry has no schema {number}" + ("" if number else _EIGHT))
            if not isinstance(answer, dict):
                raise UnreadableSchema(f"the registry's answer about schema {number} is not an object")
            if schema_type(answer) != "AVRO":
                raise UnreadableSchema(f"schema {number} is of the type {schema_type(answer)}, not AVRO")
            try:
                found = program(_text_of(answer), self._referenced(answer, set()), rows)
            except (TypeError, LookupError, AttributeError, ValueError) as error:
                raise UnreadableSchema(f"schema {number} cannot be read: {error}") from error
            _programs[key] = found
        return found

    def _referenced(self, answer: Mapping[str, Any], met: set[tuple[str, int]]) -> list[str]:
        """The schemas that an answer's schema references, each after those that it references itself."""
        found = []
        for other in answer.get("references") or ():
            subject_version = str(other["subject"]), int(other["version"])
            if subject_version in met:
                continue
            if len(met) == _MOST_NAMED:
                raise UnreadableSchema(f"the schema names more than {_MOST_NAMED} others")
            met.add(subject_version)
            named = self.get(f"/subjects/{quote(subject_version[0], safe='')}/versions/{subject_version[1]}")
            if named is None:
                raise UnreadableSchema(
                    f"the registry has no version {subject_version[1]} of {subject_version[0]}, which the schema names"
                )
            found += [*self._referenced(named, met), _text_of(named)]
        return found

    def register(self, topic: str, part: str, schema: Mapping[str, Any]) -> int:
        """Register a schema of a topic's keys or values, and return its number. Raises the side's errors."""
        subject = f"{topic}-{part}"
        body = json.dumps({"schemaType": "AVRO", "schema": json.dumps(schema)}).encode()
        answer = self.get(f"/subjects/{quote(subject, safe='')}/versions", body)
        if answer is None:
            hint = "see schema-registry.url, and that its user may write subjects"
            raise self._side.refused("the registry does not accept schemas", where=f"subject {subject}", hint=hint)
        number = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(number, int) or not 0 <= number < 1 << 32:
            hint = "see that schema-registry.url is a Schema Registry"
            raise self._side.refused("the registry gave no number of a schema", where=f"subject {subject}", hint=hint)
        return number

    def reach(self) -> None:
        """Check that the registry answers. Raises the side's errors."""
        self.get("/subjects")

    def get(self, path: str, body: bytes | None = None) -> Any:
        """The registry's answer to a GET, or to a POST if there is a body; None when it does not have the thing.

        Raises the side's errors.
        """
        return self._policy.call(lambda: self._request(path, body), f"Schema Registry {self._settings.urls[0]}")

    def _request(self, path: str, body: bytes | None) -> Any:
        """Ask one server after the other until one answers."""
        for url in self._settings.urls[:-1]:
            try:
                return self._request_url(url, path, body)
            except self._side.unavailable:
                continue
        return self._request_url(self._settings.urls[-1], path, body)

    def _request_url(self, url: str, path: str, payload: bytes | None) -> Any:
        where, side = f"Schema Registry {url}", self._side
        connection = self._connection(url)
        try:
            method = "GET" if payload is None else "POST"
            connection.request(method, urlsplit(url).path.rstrip("/") + path, payload, self._headers())
            with connection.getresponse() as response:
                status, body = response.status, _body(response)
        except (OSError, HTTPException) as error:
            if is_tls_refusal(error):
                hint = tls_hint(error, "see schema-registry.ssl.ca.location, and that the port is one of TLS")
                raise side.refused(f"no TLS connection: {tls_reason(error)}", where=where, hint=hint) from error
            hint = "see schema-registry.url, and that the registry runs; it is waited for until retry-timeout"
            raise side.unavailable(f"no answer: {type(error).__name__}: {error}", where=where, hint=hint) from error
        finally:
            connection.close()
        return self._answer(status, body, where)

    def _answer(self, status: int, body: bytes, where: str) -> Any:
        side = self._side
        if len(body) > _MOST_BYTES:
            hint = "see that schema-registry.url is a Schema Registry"
            raise side.refused(f"an answer has more than {_MOST_BYTES >> 20} MiB", where=where, hint=hint)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        answered = body.decode("utf-8", "replace").strip()[:_SHOWN]
        if status in _PASSING or status >= 500 or (status == 200 and not body):
            raise side.unavailable(
                f"HTTP {status}: {answered}", where=where, hint="the request is repeated until retry-timeout"
            )
        if status in (401, 403):
            hint = "see schema-registry.basic-auth.user-info or schema-registry.bearer-auth.token"
            raise side.refused(f"the login is refused: HTTP {status}", where=where, hint=hint)
        coded = isinstance(found, dict) and "error_code" in found
        if status == 404 and coded:
            return None
        if status in (409, 422):
            hint = "the subject's compatibility refuses it: change that in the registry, or use another topic"
            raise side.refused(f"the schema is refused: HTTP {status}: {answered}", where=where, hint=hint)
        if status != 200 or found is None:
            hint = "schema-registry.url is where /subjects answers; of Apicurio that ends with /apis/ccompat/v7"
            raise side.refused(f"no answer of a Schema Registry: HTTP {status}: {answered}", where=where, hint=hint)
        return found

    def _connection(self, url: str) -> HTTPConnection:
        parts, settings = urlsplit(url), self._settings
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S)
        try:
            context = ssl.create_default_context(cafile=settings.ca)
            if settings.certificate is not None:
                context.load_cert_chain(settings.certificate, settings.key)
        except OSError as error:
            hint = "schema-registry.ssl.* are PEM files on every machine that runs a part of the pipeline"
            raise self._side.refused(f"its TLS files cannot be read: {error}", where=url, hint=hint) from error
        return HTTPSConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S, context=context)

    def _headers(self) -> dict[str, str]:
        headers, settings = {"Accept": f"{_TYPES}, application/json", "Content-Type": _TYPES}, self._settings
        if settings.token:
            headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.user_info:
            headers["Authorization"] = f"Basic {base64.b64encode(settings.user_info.encode()).decode()}"
        return headers


def _body(response: HTTPResponse) -> bytes:
    """The body of an answer; reads at most a little more than the limit.

    Raises TimeoutError when it does not end in time, IncompleteRead when it ends too early.
    """
    parts: list[bytes] = []
    size, began_s = 0, time.monotonic()
    while size <= _MOST_BYTES and (part := response.read1(1 << 16)):
        parts.append(part)
        size += len(part)
        if time.monotonic() - began_s > _ANSWER_S:
            raise TimeoutError(f"its answer has no end after {_ANSWER_S:.0f} s")
    if response.length and size <= _MOST_BYTES:
        raise IncompleteRead(b"", response.length)
    return b"".join(parts)


def _text_of(answer: Mapping[str, Any]) -> str:
    """The schema in an answer. Raises TypeError for an answer without one."""
    text = answer.get("schema")
    if not isinstance(text, str):
        raise TypeError("the registry's answer has no schema")
    return text
