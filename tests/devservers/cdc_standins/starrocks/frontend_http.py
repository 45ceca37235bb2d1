"""The front end's HTTP port: redirects loads to the back end, commits what is prepared, tells the state of labels."""

from __future__ import annotations

from cdc_standins.faults import Answer, Fault
from cdc_standins.http_server import Request, Response, json_response
from cdc_standins.starrocks.errors import FrontendFailure, LoadFailure
from cdc_standins.starrocks.headers import timeout_s
from cdc_standins.starrocks.points import OPERATIONS
from cdc_standins.starrocks.replies import frontend_failure, frontend_reply, rest_result
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.transactions import (
    ABORTED,
    COMMITTED,
    PREPARE,
    PREPARED,
    VISIBLE,
    Transaction,
)

PUBLISH_WAIT_S = 20.0
_DDL = "com.starrocks.common.DdlException"


class FrontendHttp:
    """Handles requests of the front end's port."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._begun: set[tuple[str, str]] = set()

    def handle(self, request: Request) -> Response:
        """One request."""
        try:
            return self._route(request)
        except Answer as answer:
            return answer.response
        except LoadFailure as failure:
            return frontend_failure(failure)

    def _route(self, request: Request) -> Response:
        parts = request.parts
        if parts == ["api", "health"]:
            return json_response({"online_backend_num": 1, "total_backend_num": 1, "status": "OK"})
        login = request.basic()
        if login is None or not self._services.users.right(login):
            return _unauthorized("Access denied for " + (f"{login[0]}@127.0.0.1" if login else "anonymous"))
        match parts:
            case ["api", database, table, "_stream_load"] if request.method == "PUT":
                return self._load(request, login[0], database, table)
            case ["api", "transaction", operation] if request.method in ("POST", "PUT"):
                return self._transaction(request, operation)
            case ["api", database, "get_load_state"] if request.method == "GET":
                return self._state(request, database)
            case ["api", database, table, "_cancel"] if request.method == "POST":
                return self._cancel(request, login[0], database, table)
        return Response(404, b"Not Found")

    def _redirect(self, request: Request) -> Response:
        location = f"http://127.0.0.1:{self._services.be_http_port}{request.target}"
        return Response(307, headers={"Location": location}, close=True)

    def _load(self, request: Request, user: str, database: str, table: str) -> Response:
        label = request.headers.get("label", "")
        _refuse(self._services.faults.meet("fe.load", label=label, db=database, table=table))
        if request.version == "HTTP/1.1" and not request.expects_continue:
            failure = FrontendFailure("There is no 100-continue header", java=_DDL)
            return json_response({"Status": failure.status, "Message": failure.message}, close=True)
        if database not in self._services.catalog.databases:
            raise FrontendFailure(f"Unknown database '{database}'", java=_DDL)
        if not self._services.users.allowed(user, "INSERT", database, table):
            return _unauthorized(f"Access denied; user '{user}' needs the INSERT privilege on {database}.{table}")
        return self._redirect(request)

    def _transaction(self, request: Request, operation: str) -> Response:
        headers = request.headers
        label, database, table = (headers.get(name, "") for name in ("label", "db", "table"))
        if operation not in OPERATIONS:
            raise FrontendFailure(f"Unknown transaction operation: {operation}")
        where = {"label": label, "db": database, "table": table}
        _refuse(self._services.faults.meet(f"fe.txn.{operation}", **where))
        if headers.get("transaction_type") or headers.get("source_type"):
            raise FrontendFailure("the stand-in does not know transactions over several tables")
        if not label:
            raise FrontendFailure("Empty label.")
        if not database:
            raise FrontendFailure("No database selected.")
        if database not in self._services.catalog.databases:
            raise FrontendFailure(f"Database[{database}] does not exist.")
        self._services.transactions.expire()
        if operation == "begin":
            self._begun.add((database, label))
            return self._redirect(request)
        if operation == "load":
            return self._to_its_backend(request, database, label)
        return self._finish(request, operation, database, label)

    def _to_its_backend(self, request: Request, database: str, label: str) -> Response:
        if (database, label) not in self._begun:
            transaction = self._services.transactions.latest(database, label)
            if transaction is None or transaction.state not in (PREPARE, PREPARED):
                raise FrontendFailure(
                    f"Can't find the transaction with db [{database}] and label[{label}]. The possible reasons: "
                    "1. FE leader is started or switched; 2. The transaction timeouts and is cleaned."
                )
        return self._redirect(request)

    def _finish(self, request: Request, operation: str, database: str, label: str) -> Response:
        transaction = self._services.transactions.latest(database, label)
        if transaction is None:
            raise FrontendFailure(f"No transaction found with db[{database}] and label[{label}]")
        if operation == "prepare" or transaction.state == PREPARE:
            return self._redirect(request)
        reply = self._commit(request, transaction) if operation == "commit" else self._rollback(transaction)
        where = {"label": label, "db": database, "table": transaction.table}
        _refuse(self._services.faults.meet(f"fe.txn.{operation}.done", **where))
        return reply

    def _commit(self, request: Request, transaction: Transaction) -> Response:
        number, label = transaction.id, transaction.label
        if transaction.state in (COMMITTED, VISIBLE):
            return frontend_reply(transaction, f"Transaction {number} has already committed, label is {label}")
        if transaction.state == ABORTED:
            raise FrontendFailure(f"Can not commit ABORTED transaction {number}, label is {label}", java="")
        wait_s = timeout_s(request.headers, PUBLISH_WAIT_S)
        self._services.transactions.committed(transaction)
        if not self._services.published(transaction, wait_s):
            raise FrontendFailure(f"publish timeout: {int(wait_s * 1000)}")
        return frontend_reply(transaction)

    def _rollback(self, transaction: Transaction) -> Response:
        number, label = transaction.id, transaction.label
        if transaction.state == ABORTED:
            return frontend_reply(transaction, f"Transaction {number} has already aborted, label is {label}")
        if transaction.state in (COMMITTED, VISIBLE):
            raise FrontendFailure(f"Can not abort {transaction.state} transaction {number}, label is {label}", java="")
        self._services.transactions.abort(transaction, "User rolls back the transaction")
        return frontend_reply(transaction)

    def _state(self, request: Request, database: str) -> Response:
        label = request.query.get("label", "")
        _refuse(self._services.faults.meet("fe.state", label=label, db=database))
        if database not in self._services.catalog.databases:
            return rest_result(f"unknown database {database}", ok=False)
        if not label:
            return rest_result("No label selected.", ok=False)
        self._services.transactions.expire()
        transaction = self._services.transactions.latest(database, label)
        state, reason = ("UNKNOWN", "") if transaction is None else (transaction.state, transaction.reason)
        return rest_result("", ok=True, state=state, reason=reason)

    def _cancel(self, request: Request, user: str, database: str, table: str) -> Response:
        label = request.query.get("label", "")
        if not label:
            return rest_result("No label selected.", ok=False)
        if not self._services.users.allowed(user, "INSERT", database, table):
            return _unauthorized(f"Access denied; user '{user}' needs the INSERT privilege on {database}.{table}")
        transaction = self._services.transactions.latest(database, label)
        if transaction is None:
            return rest_result(f"transaction not found, label = {label}", ok=False)
        if transaction.state not in (PREPARE, PREPARED):
            return rest_result(f"transaction's state is already {transaction.state}, can not abort", ok=False)
        self._services.transactions.abort(transaction, "user cancel")
        return rest_result("", ok=True)


def _unauthorized(message: str) -> Response:
    return rest_result(message, ok=False, http=401, headers={"WWW-Authenticate": 'Basic realm=""'})


def _refuse(fault: Fault | None) -> None:
    if fault is not None:
        raise FrontendFailure(str(fault.args.get("message", "injected failure")))
