"""Puts the StarRocks stand-in together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from cdc_standins.context import Command, Context, Parts
from cdc_standins.control import common_commands
from cdc_standins.data import Data
from cdc_standins.faults import Answer, Faults
from cdc_standins.http_server import Cut, HttpServer
from cdc_standins.sql_server import SqlServer
from cdc_standins.starrocks.backend import Backend
from cdc_standins.starrocks.backend_http import BackendHttp
from cdc_standins.starrocks.catalog import Catalog
from cdc_standins.starrocks.frontend_http import FrontendHttp
from cdc_standins.starrocks.jobs import Jobs
from cdc_standins.starrocks.points import EXTRA_ACTIONS, POINTS
from cdc_standins.starrocks.publisher import Publisher
from cdc_standins.starrocks.schema import Table
from cdc_standins.starrocks.select import Select
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.session import Session
from cdc_standins.starrocks.transactions import LIMITS, Transaction, Transactions
from cdc_standins.starrocks.users import Users

DEFAULTS: dict[str, Any] = {"root_password": "", "count_only": False, "label_conflict_fails": False, **LIMITS}
"""Options besides the ports, with what they are when not given.

`label_conflict_fails`: a plain load whose label is taken gets the Status Fail, as some 3.3 and 3.4 builds answer.
"""


class _Accounts:
    """Who may connect to the SQL port."""

    def __init__(self, services: Services) -> None:
        self._services, self._select = services, Select(services)

    def password(self, user: str) -> str | None:
        """The user's password in clear, or None when there is no such user."""
        return self._services.users.password(user)

    def session(self, user: str) -> Session:
        """A new session."""
        return Session(self._services, self._select, user)


def build(context: Context) -> Parts:
    """The servers of one stand-in, and what its control port can do. Raises ValueError for an unknown option."""
    options = _options(context.options)
    faults = Faults(POINTS, EXTRA_ACTIONS)
    data = Data(context.folder)
    catalog = Catalog(context.journal, data)
    transactions = Transactions(context.journal, context.clock, options)
    publisher = Publisher(transactions, catalog, data, faults)
    jobs = Jobs(context.journal, context.clock, catalog, transactions, faults)
    users = Users(context.journal, str(options["root_password"]))
    services = Services(
        context.folder, catalog, transactions, data, publisher, jobs, users, faults, bool(options["count_only"]),
        bool(options["label_conflict_fails"]),
    )  # fmt: skip
    backend = Backend(services)
    transactions.abort_unprepared("coordinate BE restart")
    be_http = HttpServer("be", BackendHttp(services, backend).handle, context.port("be_http"))
    services.be_http_port = be_http.port
    fe_http = HttpServer("fe", FrontendHttp(services).handle, context.port("http"))
    sql = SqlServer("sql", _Accounts(services), context.port("sql"), version="8.0.33")

    def background() -> None:
        publisher.resume()
        jobs.start()

    def close() -> None:
        jobs.stop()
        data.close()

    commands = _commands(services, backend, common_commands(faults, context.clock, be_http), be_http)
    return Parts(fe_http, be_http, sql, commands, close, background)


def _commands(
    services: Services, backend: Backend, common: dict[str, Command], be_http: HttpServer
) -> Mapping[str, Command]:
    def be_down(_: dict[str, Any]) -> None:
        be_http.stop()
        backend.lose("coordinate BE is down")

    def transactions(_: dict[str, Any]) -> list[dict[str, Any]]:
        services.transactions.expire()
        rows = "NumberLoadedRows"
        return [asdict(it) | {"db": it.database, "rows": it.counts.get(rows, 0)} for it in services.transactions.all()]

    def labelled(asked: dict[str, Any]) -> Transaction:
        found = services.transactions.latest(str(asked["db"]), str(asked["label"]))
        if found is None:
            raise ValueError(f"no transaction of the label {asked['label']} in {asked['db']}")
        return found

    def changed(table: Table) -> None:
        with suppress(Cut, Answer):  # the change is made: it cannot be answered otherwise any more
            services.faults.meet("ddl", table=table.name, db=table.database)

    services.faults.on_be_down = lambda: be_down({})
    services.catalog.on_change = changed
    return {
        **common,
        "be_down": be_down,
        "transactions": transactions,
        "counters": lambda _: dict(services.counters),
        "lose_contexts": lambda _: backend.lose(None),
        "expire": lambda asked: services.transactions.abort(labelled(asked), "timeout by txn manager"),
        "forget": lambda asked: services.transactions.forget(labelled(asked)),
    }


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    ports = {"http_port", "be_http_port", "sql_port", "control_port"}
    unknown = set(given) - set(DEFAULTS) - ports
    if unknown:
        raise ValueError(f"no option {', '.join(sorted(unknown))}: there are {', '.join(sorted(DEFAULTS))}")
    return {**DEFAULTS, **given}
