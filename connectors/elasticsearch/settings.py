"""Convert the options to what the parts of the sink take."""

from __future__ import annotations

from base64 import b64encode

from cdc.retry import RetryPolicy
from connectors.elasticsearch.client import Login, SearchClient
from connectors.elasticsearch.mapping import FieldRules, IndexNames
from connectors.elasticsearch.options import ElasticsearchSinkOptions


def client_of(options: ElasticsearchSinkOptions, retry: RetryPolicy) -> SearchClient:
    """The client of the cluster."""
    headers = {}
    if options.api_key is not None:
        headers["Authorization"] = f"ApiKey {options.api_key.get_secret_value()}"
    elif options.username is not None and options.password is not None:
        pair = f"{options.username}:{options.password.get_secret_value()}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return SearchClient(
        options.addresses,
        Login(headers),
        connections=options.connections,
        timeout_s=options.request_timeout_s,
        ca=options.tls_ca,
        verify=options.tls_verify,
        retry=retry,
    )


def names_of(options: ElasticsearchSinkOptions) -> IndexNames:
    """The naming of indexes and aliases."""
    return IndexNames(options.index_prefix, options.index_suffix)


def rules_of(options: ElasticsearchSinkOptions, product: str) -> FieldRules:
    """The rules by which columns become fields of this product."""
    return FieldRules(
        text_as=options.text_as,
        text_columns=_names(options.text_fields),
        unindexed=_names(options.unindexed),
        routing=_names(options.routing),
        sharding=options.sharding(),
        separator=options.sharding_separator,
        decimal_as=options.decimal_as,
        json_as=options.json_as,
        ignore_above=options.ignore_above,
        ignore_malformed=options.ignore_malformed,
        flattened="flat_object" if product == "opensearch" else "flattened",
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
