"""The back end's HTTP port: plain loads and the steps of transactions, always answered with 200."""

from __future__ import annotations

import time
from urllib.parse import unquote
from uuid import uuid4

from cdc_standins.faults import Answer, Fault
from cdc_standins.http_server import ClientGone, Cut, Request, Response, json_response
from cdc_standins.starrocks.backend import Backend
from cdc_standins.starrocks.errors import LoadFailure, analysis
from cdc_standins.starrocks.headers import idle_timeout_s, read_headers, timeout_s
from cdc_standins.starrocks.load import Load
from cdc_standins.starrocks.points import OPERATIONS
from cdc_standins.starrocks.replies import backend_failure, backend_reply, plain_reply
from cdc_standins.starrocks.schema import Table
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.transactions import Transaction

PUBLISH_WAIT_S = 20.0


class BackendHttp:
    """Handles requests of the back end's port."""

    def __init__(self, services: Services, backend: Backend) -> None:
        self._services, self._backend = services, backend

    def handle(self, request: Request) -> Response:
        """One request."""
        try:
            return self._route(request)
        except Answer as answer:
            return answer.response

    def _route(self, request: Request) -> Response:
        match request.parts:
            case ["api", database, table, "_stream_load"] if request.method == "PUT":
                return self._plain(request, database, table)
            case ["api", "transaction", operation] if operation in OPERATIONS and request.method in ("POST", "PUT"):
                return self._transaction(request, operation)
            case ["api", "_load_error_log"]:
                text = self._services.errors(unquote(request.query.get("file", "")))
                return Response(404, b"file not exists") if text is None else Response(200, text.encode())
            case ["api", "health"]:
                return json_response({"status": "OK", "msg": "To Be Added"})
        return Response(404, b"Not Found")

    def _transaction(self, request: Request, operation: str) -> Response:
        headers = request.headers
        label, database, table = (headers.get(name, "") for name in ("label", "db", "table"))
        where = {"label": label, "db": database, "table": table}
        try:
            fault = self._services.faults.meet(f"be.txn.{operation}", **where)
            _refuse(fault)
            self._login(request)
            _needed(label, database)
            transaction, numbers = self._step(request, operation, label, database, table)
            _refuse(self._services.faults.meet(f"be.txn.{operation}.done", **where))
        except LoadFailure as failure:
            url = self._services.keep_errors(failure.error_rows)
            return backend_failure(failure, label, url)
        return backend_reply(operation, transaction, numbers)

    def _step(
        self, request: Request, operation: str, label: str, database: str, table: str
    ) -> tuple[Transaction, dict[str, int]]:
        headers = request.headers
        if operation == "begin":
            return self._backend.begin(self._wanted(request, database, table, label, plain=False))
        if operation == "load":
            return self._backend.load(database, table, label, headers, request.body)
        if operation == "prepare":
            return self._backend.prepare(label, headers)
        if operation == "commit":
            return self._backend.commit(label, timeout_s(headers, PUBLISH_WAIT_S))
        return self._backend.rollback(label)

    def _login(self, request: Request) -> None:
        login = request.basic()
        if login is None:
            raise LoadFailure("INTERNAL_ERROR", "no valid Basic authorization")
        if not self._services.users.right(login):
            raise analysis(f"Access denied for {login[0]}@127.0.0.1", aborts=False)

    def _wanted(self, request: Request, database: str, table: str, label: str, *, plain: bool) -> Transaction:
        """The transaction to begin: the checks of the BEGIN call to the front end. Raises LoadFailure."""
        services = self._services
        login = request.basic()
        number = services.catalog.databases.get(database)
        if number is None:
            raise analysis(f"unknown database, database={database}", aborts=False)
        found = services.catalog.find(database, table)
        if found is None:
            raise analysis(f'unknown table "{database}.{table}"', aborts=False)
        if login is None or not services.users.allowed(login[0], "INSERT", database, table):
            user = login[0] if login else ""
            raise analysis(f"Access denied; user '{user}' need INSERT privilege on {database}.{table}", aborts=False)
        default = services.transactions.default("stream_load_default_timeout_second")
        return Transaction(
            0, database, number, label, table, found.id, found.data, timeout_s(request.headers, default), 0,
            idle_timeout_s=idle_timeout_s(request.headers), plain=plain,
        )  # fmt: skip

    def _plain(self, request: Request, database: str, table: str) -> Response:
        label = request.headers.get("label") or str(uuid4())
        load = _PlainLoad(self._services, label)
        try:
            _refuse(self._services.faults.meet("be.load", label=label, db=database, table=table))
            self._login(request)
            headers = read_headers(request.headers)
            begun = time.monotonic()
            load.begin(self._wanted(request, database, table, label, plain=True))
            load.numbers["BeginTxnTimeMs"] = int((time.monotonic() - begun) * 1000)
            load.run(Load(load.table(), headers, count_only=self._services.count_only), request)
        except LoadFailure as failure:
            return load.failed(failure)
        except (ClientGone, Cut):
            load.abort("client has disconnected")
            raise
        response = load.commit()
        try:
            _refuse(self._services.faults.meet("be.load.done", label=label, db=database, table=table))
        except LoadFailure as failure:
            return load.failed(failure)
        return response


class _PlainLoad:
    """One plain load from its begin to its answer."""

    def __init__(self, services: Services, label: str) -> None:
        self._services, self._label = services, label
        self._transaction: Transaction | None = None
        self.numbers: dict[str, int] = {}

    def begin(self, wanted: Transaction) -> None:
        self._transaction = self._services.transactions.begin(wanted)

    def table(self) -> Table:
        assert self._transaction is not None
        return self._services.catalog.table_of(self._transaction)

    def run(self, load: Load, request: Request) -> None:
        assert self._transaction is not None
        load.receive(request.body, self._services.watch(self._transaction))
        self.numbers |= {"LoadBytes": load.body_bytes, "StreamLoadPlanTimeMs": load.plan_ms}
        self.numbers |= load.finish()
        self.numbers |= {"ReadDataTimeMs": load.read_ms, "WriteDataTimeMs": load.write_ms}
        self._services.stage(self._transaction, load)
        self._services.count(self.numbers)
        self._services.transactions.committed(self._transaction, self.numbers)

    def commit(self) -> Response:
        assert self._transaction is not None
        begun = time.monotonic()
        visible = self._services.published(self._transaction, PUBLISH_WAIT_S)
        self.numbers["CommitAndPublishTimeMs"] = int((time.monotonic() - begun) * 1000)
        status, message = ("Success", "OK") if visible else ("Publish Timeout", "publish timeout")
        return self._reply(status, message)

    def failed(self, failure: LoadFailure) -> Response:
        self.abort(failure.message)
        if failure.status == "LABEL_ALREADY_EXISTS" and not self._services.label_conflict_fails:
            return self._reply("Label Already Exists", failure.message, existing=failure.existing)
        return self._reply("Fail", failure.message, url=self._services.keep_errors(failure.error_rows))

    def abort(self, reason: str) -> None:
        if self._transaction is not None:
            self._services.transactions.abort(self._transaction, reason)

    def _reply(self, status: str, message: str, *, existing: str | None = None, url: str = "") -> Response:
        number = self._transaction.id if self._transaction is not None else -1
        return plain_reply(status, message, self._label, number, self.numbers, existing=existing, error_url=url)


def _refuse(fault: Fault | None) -> None:
    if fault is not None:
        status = str(fault.args.get("status", "INTERNAL_ERROR"))
        raise LoadFailure(status, str(fault.args.get("message", "injected failure")))


def _needed(label: str, database: str) -> None:
    if not label:
        raise LoadFailure("INVALID_ARGUMENT", "empty label")
    if not database:
        raise LoadFailure("INVALID_ARGUMENT", "empty database")
