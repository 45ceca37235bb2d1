"""Convert the options to what the parts of the Doris sink take. Driver, once per run; results are picklable."""

from __future__ import annotations

from connectors.doris.client import DorisClient
from connectors.doris.dialect import DorisDialect
from connectors.doris.load import LoadRules
from connectors.doris.options import DorisSinkOptions
from connectors.shared.sending.sender import SendLimits
from connectors.shared.servers.address import parse_list
from connectors.shared.streamload.http import HttpClient
from connectors.shared.streamload.options import BACKEND_PORT
from connectors.shared.streamload.settings import http_servers


def client(options: DorisSinkOptions) -> DorisClient:
    """The client that reaches the cluster by HTTP."""
    backends = () if options.benodes is None else parse_list(options.benodes, default_port=BACKEND_PORT)
    http = HttpClient(http_servers(options, backends))
    return DorisClient(http, query_backends=not options.auto_redirect and not backends)


def load_rules(options: DorisSinkOptions) -> LoadRules:
    """The rules for sending loads."""
    return LoadRules(
        headers={**options.load_headers(), "timeout": str(max(1, round(options.load_timeout_s)))},
        two_phase=options.delivery_guarantee == "exactly-once",
        packing=options.packing(),
        dead_letters=options.dead_letters,
    )


def dialect(options: DorisSinkOptions) -> DorisDialect:
    """The dialect that creates tables."""
    return DorisDialect(options.table_properties(), options.zone, options.keyless == "skip")


def send_limits(options: DorisSinkOptions) -> SendLimits:
    """The limits for how much is sent at a time."""
    return SendLimits(load_bytes=options.load_size, threads=options.threads)
