"""Options as the parts of the sink take them. Driver, once per run; every result is frozen and picklable."""

from __future__ import annotations

from connectors.shared.conversion.policy import RejectedValuePolicy
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.servers.address import Account, TimeLimits, Tls, parse_list
from connectors.shared.sql.client import SqlServers
from connectors.starrocks.client import TransactionLimits
from connectors.starrocks.dialect import StarRocksDialect
from connectors.starrocks.options import PACKINGS, StarRocksSinkOptions
from connectors.starrocks.types import TypeRules
from connectors.streamload.http import Servers
from connectors.streamload.options import HTTP_PORT, jdbc_addresses
from connectors.streamload.pack import Packing
from connectors.streamload.window import WindowRules

_ANSWER_S = 600.0
_QUERY_S = 300.0


def servers(options: StarRocksSinkOptions) -> Servers:
    """How the cluster is reached by HTTP."""
    return Servers(
        frontends=parse_list(options.load_url, default_port=HTTP_PORT),
        account=_account(options),
        tls=_tls(options),
        limits=_limits(options),
    )


def sql_servers(options: StarRocksSinkOptions) -> SqlServers:
    """How the cluster is reached by SQL; a query waits as long as a schema change may take."""
    return SqlServers(
        frontends=jdbc_addresses(options.jdbc_url),
        account=_account(options),
        tls=_tls(options) if options.tls_sql else None,
        limits=_limits(options),
        query_s=max(_QUERY_S, options.schema_change_timeout_s),
    )


def packing(options: StarRocksSinkOptions) -> Packing:
    """How load bodies are compressed."""
    return PACKINGS[next((text.lower() for _, name, text in options.headers() if name == "compression"), "")]


def dialect(options: StarRocksSinkOptions) -> StarRocksDialect:
    """How tables are created."""
    properties = tuple(options.table_properties().items())
    types = TypeRules(options.character_bytes, options.json_type == "json")
    return StarRocksDialect(types, options.buckets, properties)


def window_rules(options: StarRocksSinkOptions) -> WindowRules:
    """How rows are checked and encoded."""
    return WindowRules(
        rejected_values=RejectedValuePolicy(options.rejected_values),
        keyless=KeylessChanges(options.keyless),
        deletes=options.enable_delete,
        time_zone=options.time_zone,
        max_key_bytes=options.key_bytes,
    )


def transaction_limits(options: StarRocksSinkOptions) -> TransactionLimits:
    """How long StarRocks keeps loads."""
    prepared_s = None if options.prepared_timeout_s is None else max(1, round(options.prepared_timeout_s))
    return TransactionLimits(max(1, round(options.load_timeout_s)), prepared_s)


def _account(options: StarRocksSinkOptions) -> Account:
    return Account(options.username, options.password.get_secret_value())


def _tls(options: StarRocksSinkOptions) -> Tls:
    return Tls(options.tls_ca, options.tls_verify, options.tls_plain_backends)


def _limits(options: StarRocksSinkOptions) -> TimeLimits:
    return TimeLimits(
        connect_s=options.connect_timeout_ms / 1000,
        continue_s=options.continue_timeout_ms / 1000,
        answer_s=_ANSWER_S if options.socket_timeout_ms <= 0 else options.socket_timeout_ms / 1000,
    )
