"""A strict stand-in of a Paimon REST catalog: the endpoints that the sink uses, over the library's filesystem catalog.

It refuses as the specification says (Paimon REST Open API): 404 for names that are not there, 409 for names that are
taken, and a commit that does not succeed when its base is not the newest snapshot or the table has another id.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from uuid import uuid4

from http_server import QuietHandler, serving
from pypaimon.api.api_request import CreateTableRequest
from pypaimon.catalog.catalog_exception import (
    DatabaseAlreadyExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
)
from pypaimon.catalog.catalog_factory import CatalogFactory
from pypaimon.common.identifier import Identifier
from pypaimon.common.json_util import JSON
from pypaimon.schema import schema_change as changes
from pypaimon.schema.data_types import DataTypeParser

_CHANGES = {
    "setOption": changes.SetOption, "removeOption": changes.RemoveOption, "updateComment": changes.UpdateComment,
    "addColumn": changes.AddColumn, "renameColumn": changes.RenameColumn, "dropColumn": changes.DropColumn,
    "updateColumnType": changes.UpdateColumnType, "updateColumnNullability": changes.UpdateColumnNullability,
    "updateColumnComment": changes.UpdateColumnComment, "updateColumnPosition": changes.UpdateColumnPosition,
}  # fmt: skip
Answer = tuple[int, Any]


class RestCatalog:
    """The catalog behind the server. `loses_answers`: every second commit answers with an error, once it is done."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.catalog = CatalogFactory.create({"metastore": "filesystem", "warehouse": str(folder)})
        self.loses_answers, self._commits = False, 0
        self.ids: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, url: str, body: Any) -> Answer:
        """The status and the JSON object of an answer."""
        parts = [unquote(part) for part in urlparse(url).path.removeprefix("/v1/").split("/")]
        with self._lock:
            return self._routes(method, parts)(body)

    def _routes(self, method: str, parts: list[str]) -> Callable[[Any], Answer]:
        match method, parts:
            case "GET", ["config"]:
                return lambda _: (200, {"defaults": {}, "overrides": {}})
            case "GET", ["databases"]:
                return lambda _: (200, {"databases": self.catalog.list_databases(), "nextPageToken": None})
            case "POST", ["databases"]:
                return lambda body: (200, self.catalog.create_database(body["name"], False))
            case "GET", ["databases", name]:
                return lambda _: (200, self._database(name))
            case "GET", ["databases", name, "tables"]:
                return lambda _: (200, {"tables": self.catalog.list_tables(name), "nextPageToken": None})
            case "POST", ["databases", name, "tables"]:
                return lambda body: self._create(name, body)
            case "GET", ["databases", name, "tables", table]:
                return lambda _: (200, self._table(name, table))
            case "POST", ["databases", name, "tables", table]:
                return lambda body: self._alter(name, table, body)
            case "DELETE", ["databases", name, "tables", table]:
                return lambda _: self._drop(name, table)
            case "POST", ["tables", "rename"]:
                return self._rename
            case "GET", ["databases", name, "tables", table, "snapshot"]:
                return lambda _: self._snapshot(name, table)
            case "POST", ["databases", name, "tables", table, "commit"]:
                return lambda body: self._commit(name, table, body)
        raise LookupError(f"{method} {'/'.join(parts)}")

    def _database(self, name: str) -> Any:
        self.catalog.get_database(name)
        return {"id": name, "name": name, "location": self.catalog.get_database_path(name), "options": {}, **_AUDIT}

    def _create(self, database: str, body: Any) -> Answer:
        asked = JSON.from_json(json.dumps(body), CreateTableRequest)
        self.catalog.create_table(_named(database, asked.identifier.get_table_name()), asked.schema, False)
        self.ids[database, asked.identifier.get_table_name()] = str(uuid4())
        return 200, None

    def _table(self, database: str, table: str) -> Any:
        found = self.catalog.get_table(_named(database, table))
        return {
            "id": self.ids[database, table], "name": table, "path": found.table_path, "isExternal": False,
            "schemaId": found.table_schema.id, "schema": json.loads(JSON.to_json(found.table_schema.to_schema())),
            **_AUDIT,
        }  # fmt: skip

    def _alter(self, database: str, table: str, body: Any) -> Answer:
        self.catalog.alter_table(_named(database, table), [_change(dict(item)) for item in body["changes"]], False)
        return 200, None

    def _drop(self, database: str, table: str) -> Answer:
        self.catalog.drop_table(_named(database, table), False)
        del self.ids[database, table]
        return 200, None

    def _rename(self, body: Any) -> Answer:
        old, new = ((body[end]["database"], body[end]["object"]) for end in ("source", "destination"))
        self.catalog.rename_table(_named(*old), _named(*new))
        self.ids[new] = self.ids.pop(old)
        return 200, None

    def _snapshot(self, database: str, table: str) -> Answer:
        found = self.catalog.get_table(_named(database, table)).snapshot_manager().get_latest_snapshot()
        if found is None:
            return 404, {**_error("no snapshot", 404), "resourceType": "SNAPSHOT", "resourceName": table}
        counted = {"recordCount": found.total_record_count, "fileSizeInBytes": 0, "fileCount": 0}
        snapshot = json.loads(JSON.to_json(found))
        return 200, {"snapshot": {"snapshot": snapshot, **counted, "lastFileCreationTime": found.time_millis}}

    def _commit(self, database: str, table: str, body: Any) -> Answer:
        manager = self.catalog.get_table(_named(database, table)).snapshot_manager()
        newest, snapshot = manager.get_latest_snapshot(), body["snapshot"]
        if body["tableId"] != self.ids[database, table]:
            return 404, {**_error("another table", 404), "resourceType": "TABLE", "resourceName": table}
        base = (None, 0) if newest is None else (newest.uuid, newest.id)
        if (body.get("baseSnapshotUuid"), snapshot["id"] - 1) != base:
            return 200, {"success": False}
        text = json.dumps(snapshot)
        manager.file_io.write_file(manager.get_snapshot_path(snapshot["id"]), text)
        manager.file_io.write_file(manager.latest_file, str(snapshot["id"]), overwrite=True)
        self._commits += 1
        if self.loses_answers and self._commits % 2:
            return 500, _error("the answer is lost", 500)
        return 200, {"success": True}


_AUDIT: dict[str, Any] = {"owner": "o", "createdAt": 0, "createdBy": "c", "updatedAt": 0, "updatedBy": "u"}


def _named(database: str, table: str) -> Any:
    return Identifier.create(database, table)


def _change(fields: dict[str, Any]) -> Any:
    made = JSON.from_json(json.dumps(fields), _CHANGES[fields["action"]])
    for name, key in (("data_type", "dataType"), ("new_data_type", "newDataType")):
        if key in fields:
            setattr(made, name, DataTypeParser.parse_data_type(fields[key]))
    if move := fields.get("move"):
        made.move = changes.Move(move["fieldName"], move["referenceFieldName"], changes.MoveType(move["type"]))
    return made


def _error(message: str, code: int) -> dict[str, Any]:
    return {"message": message, "resourceType": None, "resourceName": None, "code": code}


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
            except (DatabaseNotExistException, TableNotExistException) as error:
                status, found = 404, _error(str(error), 404)
            except (DatabaseAlreadyExistException, TableAlreadyExistException) as error:
                status, found = 409, _error(str(error), 409)
            except LookupError as error:
                status, found = 501, _error(f"no such endpoint: {error}", 501)
            except ValueError as error:
                status, found = 400, _error(str(error), 400)
            content = b"" if found is None else json.dumps(found).encode()
            self.send(status, content)

        do_GET = do_POST = do_DELETE = _serve

    with serving(Handler) as address:
        yield catalog, address
