"""A strict stand-in of an Iceberg REST catalog: the endpoints that the sink uses, over the library's SQL catalog.

It refuses as the specification says (Iceberg REST Open API, version 1): 404 for names that are not there, 409 for names
that are taken and for requirements that do not hold, 400 for a body that cannot be read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from http_server import QuietHandler, serving
from pydantic import ValidationError
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest

_NOT_THERE = (NoSuchNamespaceError, NoSuchTableError)
_TAKEN = (NamespaceAlreadyExistsError, TableAlreadyExistsError, CommitFailedException)


class RestCatalog:
    """The catalog behind the server. `fail_next`: statuses that the next commits answer with, once they are done."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("rest", uri=f"sqlite:///{folder}/rest.db", warehouse=f"file://{folder}")
        self.fail_next: list[int] = []
        self._lock = threading.Lock()

    def answer(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        """The status and the JSON object of an answer."""
        found = urlparse(url)
        parts = [unquote(part) for part in found.path.removeprefix("/v1/").split("/")]
        if "purgeRequested=True" in found.query or "purgeRequested=true" in found.query:
            method = "PURGE"
        with self._lock:
            return self._routes(method, parts)(body)

    def _routes(self, method: str, parts: list[str]) -> Callable[[Any], tuple[int, Any]]:
        match method, parts:
            case "GET", ["config"]:
                return lambda _: (200, {"defaults": {}, "overrides": {}})
            case "GET", ["namespaces"]:
                return lambda _: (200, {"namespaces": [list(name) for name in self.catalog.list_namespaces()]})
            case "POST", ["namespaces"]:
                return self._create_namespace
            case "GET", ["namespaces", name]:
                return lambda _: (
                    200,
                    {"namespace": [name], "properties": self.catalog.load_namespace_properties(name)},
                )
            case "GET", ["namespaces", name, "tables"]:
                return lambda _: (200, {"identifiers": [_identifier(each) for each in self.catalog.list_tables(name)]})
            case "POST", ["namespaces", name, "tables"]:
                return lambda body: self._create_table(name, body)
            case "GET", ["namespaces", name, "tables", table]:
                return lambda _: (200, _loaded(self.catalog.load_table((name, table))))
            case "POST", ["namespaces", name, "tables", table]:
                return lambda body: self._commit((name, table), body)
            case "DELETE", ["namespaces", name, "tables", table]:
                return lambda _: (204, self.catalog.drop_table((name, table)))
            case "PURGE", ["namespaces", name, "tables", table]:
                return lambda _: (204, self.catalog.purge_table((name, table)))
            case "POST", ["tables", "rename"]:
                return self._rename
        raise LookupError(f"{method} {'/'.join(parts)}")

    def _create_namespace(self, body: Any) -> tuple[int, Any]:
        self.catalog.create_namespace(tuple(body["namespace"]), body.get("properties", {}))
        return 200, {"namespace": body["namespace"], "properties": body.get("properties", {})}

    def _create_table(self, namespace: str, body: Any) -> tuple[int, Any]:
        asked = CreateTableRequest.model_validate(
            {"location": None, "partition-spec": None, "write-order": None, **body}
        )
        made = self.catalog.create_table(
            (namespace, asked.name), asked.table_schema, location=asked.location,
            partition_spec=asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            properties=asked.properties,
        )  # fmt: skip
        return 200, _loaded(made)

    def _commit(self, name: tuple[str, str], body: Any) -> tuple[int, Any]:
        asked = CommitTableRequest.model_validate({**body, "identifier": {"namespace": [name[0]], "name": name[1]}})
        table = self.catalog.load_table(name)
        done = self.catalog.commit_table(table, asked.requirements, asked.updates)
        if self.fail_next:
            return self.fail_next.pop(0), _error("lost", "ServiceFailure", 500)
        return 200, json.loads(done.model_dump_json(by_alias=True))

    def _rename(self, body: Any) -> tuple[int, Any]:
        old, new = body["source"], body["destination"]
        self.catalog.rename_table((*old["namespace"], old["name"]), (*new["namespace"], new["name"]))
        return 204, None


def _loaded(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _identifier(name: tuple[str, ...]) -> dict[str, Any]:
    return {"namespace": list(name[:-1]), "name": name[-1]}


def _error(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}


@contextmanager
def rest_catalog(folder: Path) -> Iterator[tuple[RestCatalog, str]]:
    """The catalog, and the address of its server on this machine."""
    catalog = RestCatalog(folder)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            data = self.body()
            try:
                status, found = catalog.answer(self.command, self.path, json.loads(data or b"null"))
            except _NOT_THERE as error:
                status, found = 404, _error(str(error), type(error).__name__, 404)
            except _TAKEN as error:
                status, found = 409, _error(str(error), type(error).__name__, 409)
            except (ValidationError, KeyError, TypeError, LookupError) as error:
                status, found = 400, _error(repr(error), "BadRequestException", 400)
            text = b"" if found is None else json.dumps(found).encode()
            self.send(status, text)

        do_GET = do_POST = do_DELETE = _serve

    with serving(Handler) as address:
        yield catalog, address
