"""Options as the parts of the sink take them. Driver, once per run; every result is frozen and picklable."""

from __future__ import annotations

from dataclasses import replace

from connectors.doris.client import DorisClient
from connectors.doris.dialect import DorisDialect
from connectors.doris.load import LoadRules
from connectors.doris.options import PACKINGS, DorisSinkOptions
from connectors.shared.conversion.policy import RejectedValuePolicy
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.sending.sender import SendLimits
from connectors.shared.servers.address import Account, TimeLimits, Tls, parse_list
from connectors.shared.sql.client import SqlServers
from connectors.streamload.http import Servers
from connectors.streamload.options import BACKEND_PORT, HTTP_PORT, SQL_PORT, jdbc_addresses
from connectors.streamload.window import WindowRules

_QUERY_S = 300.0


def client(options: DorisSinkOptions) -> DorisClient:
    """How the cluster is reached by HTTP."""
    backends = () if options.benodes is None else parse_list(options.benodes, default_port=BACKEND_PORT)
    servers = Servers(
        frontends=parse_list(options.fenodes, default_port=HTTP_PORT),
        account=_account(options),
        backends=backends,
        tls=_tls(options),
        limits=_limits(options),
    )
    return DorisClient(servers, ask_backends=not options.auto_redirect and not backends)


def sql_servers(options: DorisSinkOptions) -> SqlServers:
    """How the cluster is reached by SQL; a query waits as long as a schema change may take."""
    if options.jdbc_url is not None:
        frontends = jdbc_addresses(options.jdbc_url)
    else:
        listed = parse_list(options.fenodes, default_port=HTTP_PORT)
        frontends = tuple(replace(address, port=SQL_PORT, secure=False) for address in listed)
    return SqlServers(
        frontends=frontends,
        account=_account(options),
        tls=_tls(options) if options.tls_sql else None,
        limits=_limits(options),
        query_s=max(_QUERY_S, options.schema_change_timeout_s),
    )


def load_rules(options: DorisSinkOptions) -> LoadRules:
    """How loads are sent."""
    headers = {**options.load_headers(), "timeout": str(max(1, round(options.load_timeout_s)))}
    return LoadRules(
        headers=headers,
        two_phase=options.delivery_guarantee == "exactly-once",
        packing=PACKINGS[headers.get("compress_type", "").lower()],
        dead_letters=options.dead_letters,
    )


def window_rules(options: DorisSinkOptions) -> WindowRules:
    """How rows are checked and encoded."""
    return WindowRules(
        rejected_values=RejectedValuePolicy(options.rejected_values),
        keyless=KeylessChanges(options.keyless),
        deletes=options.enable_delete,
        time_zone=options.time_zone,
    )


def dialect(options: DorisSinkOptions) -> DorisDialect:
    """How tables are created."""
    return DorisDialect(options.table_properties(), options.time_zone)


def send_limits(options: DorisSinkOptions) -> SendLimits:
    """How much is sent at a time."""
    return SendLimits(load_bytes=options.load_size, threads=options.threads)


def _account(options: DorisSinkOptions) -> Account:
    return Account(options.username, options.password.get_secret_value())


def _tls(options: DorisSinkOptions) -> Tls:
    return Tls(options.tls_ca, options.tls_verify, options.tls_plain_backends)


def _limits(options: DorisSinkOptions) -> TimeLimits:
    return TimeLimits(connect_s=options.connect_timeout_s, answer_s=options.load_timeout_s)
