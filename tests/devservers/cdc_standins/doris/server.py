"""Putting the Doris stand-in together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cdc_standins.context import Command, Context, Parts
from cdc_standins.control import common_commands
from cdc_standins.data import Data
from cdc_standins.doris.accounts import Accounts
from cdc_standins.doris.be import BackEnd
from cdc_standins.doris.catalog import Catalog
from cdc_standins.doris.engine import POINTS, Engine
from cdc_standins.doris.fe import FrontEnd
from cdc_standins.doris.jobs import Jobs
from cdc_standins.doris.publisher import Publisher
from cdc_standins.doris.repair import repair
from cdc_standins.doris.sql import DorisAccounts
from cdc_standins.doris.transactions import COMMITTED, PRECOMMITTED, Transactions
from cdc_standins.faults import Faults
from cdc_standins.http_server import HttpServer
from cdc_standins.sql_server import SqlServer

DEFAULTS: Mapping[str, Any] = {
    "root_password": "",
    "count_only": False,
    "cloud": False,
    "redirects_to_dead": True,
    "load_timeout_s": 259200,
    "precommit_timeout_s": 3600,
    "publish_timeout_s": 30,
    "label_keep_s": 43200,
    "label_keep_count": 2000,
    "max_running_txns": 10000,
    "load_max_bytes": 10240 << 20,
}
"""Options of the stand-in; the numbers are the server's own defaults.

`cloud`: as a server with its storage apart, which has no two phases for unique tables. `redirects_to_dead`: the front
end goes on to send loads to a back end that is down, as it does until it notices.
"""
_PORTS = ("http_port", "be_http_port", "sql_port", "control_port")


def build(context: Context) -> Parts:
    """The stand-in's servers, not started. Raises ValueError for an option that does not exist."""
    unknown = set(context.options) - set(DEFAULTS) - set(_PORTS)
    if unknown:
        raise ValueError(f"no option {sorted(unknown)[0]!r}: there are {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, **{name: value for name, value in context.options.items() if name in DEFAULTS}}
    faults = Faults(POINTS)
    data = Data(context.folder)
    catalog = Catalog(context.journal)
    transactions = Transactions(context.journal, context.clock, options, lambda one: data.unstage(one.id))
    publisher = Publisher(catalog, transactions, data, faults)
    accounts = Accounts(context.journal, str(options["root_password"]))
    engine = Engine(options, context.journal, context.clock, catalog, transactions, data, accounts, faults, publisher)
    engine.jobs = Jobs(engine)
    publisher.on_visible = engine.jobs.poke
    _clean(engine)
    be_http = HttpServer("be", BackEnd(engine), context.port("be_http"))
    fe_http = HttpServer("fe", FrontEnd(engine), context.port("http"))
    sql = SqlServer("sql", DorisAccounts(engine), context.port("sql"))
    engine.be_port = be_http.port
    engine.backend_alive = lambda: be_http.listening

    def background() -> None:
        publisher.start()
        engine.jobs.start()

    def close() -> None:
        publisher.stop()
        engine.jobs.stop()
        data.close()

    return Parts(
        fe_http,
        be_http,
        sql,
        {**common_commands(faults, context.clock, be_http), **_commands(engine)},
        close,
        background,
    )


def _clean(engine: Engine) -> None:
    """Put right what a killed process left half done: rows never precommitted, tables not as the catalog has them."""
    repair(engine)
    held = {one.id for one in engine.transactions.listed() if one.state in (PRECOMMITTED, COMMITTED)}
    for number in engine.data.staged_numbers() - held:
        engine.data.unstage(number)


def _commands(engine: Engine) -> dict[str, Command]:
    def forget(arguments: dict[str, Any]) -> int:
        return engine.transactions.forget(arguments["db"], arguments.get("label", ""))

    def expire(arguments: dict[str, Any]) -> None:
        engine.transactions.expire(arguments["db"], arguments["label"])

    return {
        "transactions": lambda _: [asdict(one) for one in engine.transactions.listed()],
        "forget": forget,
        "expire": expire,
        "counters": lambda _: dict(engine.counters),
    }
