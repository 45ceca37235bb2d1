"""Convert the options to what the parts of the StarRocks sink take. Driver, once per run; results are picklable."""

from __future__ import annotations

from connectors.shared.streamload.http import HttpClient
from connectors.shared.streamload.settings import http_servers
from connectors.starrocks.client import TransactionLimits, Transactions
from connectors.starrocks.dialect import StarRocksDialect
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.types import TypeRules


def dialect(options: StarRocksSinkOptions) -> StarRocksDialect:
    """The dialect that creates tables."""
    properties = tuple(options.table_properties().items())
    types = TypeRules(options.character_bytes, options.json_type == "json")
    return StarRocksDialect(types, options.buckets, properties, options.zone, options.keyless == "skip")


def transactions(options: StarRocksSinkOptions) -> Transactions:
    """The client that sends loads."""
    return Transactions(HttpClient(http_servers(options)), transaction_limits(options), options.packing())


def transaction_limits(options: StarRocksSinkOptions) -> TransactionLimits:
    """The time limits for which StarRocks keeps loads."""
    prepared_s = None if options.prepared_timeout_s is None else max(1, round(options.prepared_timeout_s))
    return TransactionLimits(max(1, round(options.load_timeout_s)), prepared_s)
