"""Converts options to the parts of a load sink. Driver, once per run; every result is frozen and picklable."""

from __future__ import annotations

from cdc.retry import RetryPolicy
from cdc.source import Context
from connectors.shared.conversion.policy import RejectedValuePolicy
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.servers.address import Account, Address, Tls
from connectors.shared.sql.client import SqlServers
from connectors.shared.streamload.flush import RowRules
from connectors.shared.streamload.http import Servers
from connectors.shared.streamload.options import LoadSinkOptions

_QUERY_S = 300.0
_LONGEST_LOOK_S = 1.0
"""Longest pause between checks of a schema change."""


def http_servers(options: LoadSinkOptions, backends: tuple[Address, ...] = ()) -> Servers:
    """Return the HTTP access to the cluster."""
    return Servers(options.http_frontends(), _account(options), backends, _tls(options), options.time_limits())


def sql_servers(options: LoadSinkOptions) -> SqlServers:
    """Return the SQL access to the cluster; a query waits as long as a schema change may take."""
    return SqlServers(
        frontends=options.sql_frontends(),
        account=_account(options),
        tls=_tls(options) if options.tls_sql else None,
        limits=options.time_limits(),
        query_s=max(_QUERY_S, options.schema_change_timeout_s),
    )


def retry_policy(options: LoadSinkOptions, context: Context) -> RetryPolicy:
    """Return the retry policy for servers."""
    return RetryPolicy(timeout_s=options.retry_timeout_s, stopping=context.stopping)


def job_policy(options: LoadSinkOptions, context: Context) -> RetryPolicy:
    """Return the policy for waiting for a schema change."""
    return RetryPolicy(
        timeout_s=options.schema_change_timeout_s,
        first_pause_s=0.02,
        longest_pause_s=_LONGEST_LOOK_S,
        stopping=context.stopping,
    )


def row_rules(options: LoadSinkOptions) -> RowRules:
    """Return the rules for checking and encoding rows."""
    return RowRules(
        rejected_values=RejectedValuePolicy(options.rejected_values),
        keyless=KeylessChanges(options.keyless),
        deletes=options.enable_delete,
        time_zone=options.zone,
        max_key_bytes=options.most_key_bytes,
    )


def _account(options: LoadSinkOptions) -> Account:
    return Account(options.username, options.password.get_secret_value())


def _tls(options: LoadSinkOptions) -> Tls:
    return Tls(options.tls_ca, options.tls_verify, options.tls_plain_backends)
