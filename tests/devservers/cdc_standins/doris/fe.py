"""The front end's HTTP: redirects of loads, states of labels, health."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cdc_standins.doris.engine import Engine
from cdc_standins.faults import Answer
from cdc_standins.http_server import Request, Response, json_response

_DONE_AT_BACK_END = ("_stream_load", "_stream_load_2pc")


def envelope(data: Any, message: str = "success", code: int = 0) -> Response:
    """The front end's usual answer: HTTP 200, the code in the body."""
    return json_response({"msg": message, "code": code, "data": data, "count": 0})


def unauthorized(data: str = "Need auth information.") -> Response:
    """What a request without right credentials gets: HTTP 200 all the same."""
    return envelope(data, "Unauthorized", 401)


class FrontEnd:
    """Handler of the front end's port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, request: Request) -> Response:
        """Answer one request."""
        try:
            return self._route(request)
        except Answer as answer:
            return answer.response

    def _route(self, request: Request) -> Response:
        parts = request.parts
        match (request.method, parts):
            case ("GET", ["api", "health"]):
                alive = int(self._engine.backend_alive())
                return envelope({"online_backend_num": alive, "total_backend_num": 1})
            case ("GET", ["api", "bootstrap"]):
                return envelope(_BOOTSTRAP)
            case ("GET", ["api", "backends"]):
                return self._backends(request)
            case ("GET", ["api", db, "get_load_state"]):
                return self._load_state(request, db)
            case ("PUT", ["api", db, table, "_stream_load"]):
                return self._load(request, db, table)
            case ("PUT", ["api", db, "_stream_load_2pc"] | ["api", db, _, "_stream_load_2pc"]):
                return self._two_phase(request, db)
            case _ if parts[-1:] and parts[-1] in _DONE_AT_BACK_END:
                return json_response({"timestamp": int(time.time()), "status": 405, "error": "Method Not Allowed"}, 405)
            case _:
                return envelope(None, "Not Found", 404)

    def _load(self, request: Request, db: str, table: str) -> Response:
        self._engine.faults.meet("fe.load", db=db, table=table, label=request.headers.get("label", ""))
        if not self._engine.accounts.checks(request.basic()):
            return self._denied(request)
        if not request.headers.get("expect"):
            return json_response({"status": "FAILED", "msg": "There is no 100-continue header"}, close=True)
        user = (request.basic() or ("", ""))[0]
        if not self._engine.accounts.may(user, "LOAD_PRIV", db, table):
            return unauthorized(f"Access denied for user '{user}'@'127.0.0.1' to table '{table}' (LOAD)")
        return self._redirect(request)

    def _two_phase(self, request: Request, db: str) -> Response:
        self._engine.faults.meet("fe.2pc", db=db, label=request.headers.get("label", ""))
        if not self._engine.accounts.checks(request.basic()):
            return self._denied(request)
        headers: Mapping[str, str] = request.headers
        if not headers.get("txn_id"):
            return json_response({"status": "FAILED", "msg": "No transaction id or label selected."})
        if not headers.get("txn_operation"):
            return json_response({"status": "FAILED", "msg": "No transaction operation('commit' or 'abort') selected."})
        return self._redirect(request)

    def _redirect(self, request: Request) -> Response:
        """307 to the back end, with the credentials in the address and a `?` at its end."""
        if not self._engine.backend_alive() and not self._engine.options["redirects_to_dead"]:
            return json_response({"status": "FAILED", "msg": "No backend load available, or no backend alive"})
        user, password = request.basic() or ("", "")
        path, _, query = request.target.partition("?")
        location = f"http://{quote(user)}:{quote(password)}@127.0.0.1:{self._engine.be_port}{path}?{query}"
        return Response(307, b"", {"Location": location, "Content-Type": "text/html;charset=utf-8"}, close=True)

    def _load_state(self, request: Request, db: str) -> Response:
        label = request.query.get("label", "")
        self._engine.faults.meet("fe.state", db=db, label=label)
        if not self._engine.accounts.checks(request.basic()):
            return self._denied(request)
        if not label:
            return envelope("No label selected", "Bad Request", 403)
        if not self._engine.catalog.has_database(db):
            return envelope(f"Unknown database '{db}'", "Error", 1)
        one = self._engine.transactions.by_label(db, label)
        return envelope("UNKNOWN" if one is None else one.state)

    def _backends(self, request: Request) -> Response:
        if not self._engine.accounts.checks(request.basic()):
            return self._denied(request)
        alive = self._engine.backend_alive()
        one = {"ip": "127.0.0.1", "http_port": self._engine.be_port, "is_alive": alive}
        wanted = request.query.get("is_alive", "false") != "true" or alive
        return envelope({"backends": [one] if wanted else []})

    def _denied(self, request: Request) -> Response:
        credentials = request.basic()
        if credentials is None:
            return unauthorized()
        using = "YES" if credentials[1] else "NO"
        return unauthorized(f"Access denied for user '{credentials[0]}'@'127.0.0.1' (using password: {using})")


_BOOTSTRAP = {"replayedJournalId": 0, "queryPort": 0, "rpcPort": 0, "arrowFlightSqlPort": 0, "version": ""}
