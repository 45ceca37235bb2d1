"""Findings about a cluster: its product and health, and indexes that forget deletes early. Driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.finding import Finding, error, ok, warning
from connectors.elasticsearch.client import ErrorAnswer
from connectors.elasticsearch.cluster import SearchCluster
from connectors.elasticsearch.options import ElasticsearchSinkOptions


def examine(cluster: SearchCluster, options: ElasticsearchSinkOptions) -> Iterator[Finding]:
    """Findings about version and health, and about deletes in the indexes of all pipelines."""
    product, number = cluster.product(wait=False)
    yield ok("version", f"{product} {number}")
    try:
        health = cluster.client.request("GET", "/_cluster/health", wait=False)
    except ErrorAnswer as refused:
        yield error("health", str(refused), "grant the user the cluster privilege `monitor`")
        return
    status = str(health["status"])
    if status == "red":
        yield warning("health", "the cluster is red: some shards take no documents", "see _cluster/allocation/explain")
    else:
        yield ok("health", f"the cluster is {status}, {health['number_of_nodes']} nodes")
    yield from examine_deletes(cluster, options, own=False)


def examine_deletes(cluster: SearchCluster, options: ElasticsearchSinkOptions, *, own: bool) -> Iterator[Finding]:
    """Indexes whose deletes are forgotten before a request has surely ended; `own`: of this pipeline only."""
    least = options.request_timeout_s
    for index, gc_deletes in sorted(cluster.deletes_kept_s(own=own).items()):
        if gc_deletes <= least:
            text = f"{index} forgets deletes after {gc_deletes:g} s, a request may take {least:g} s: a late one "
            hint = f'PUT /{index}/_settings {{"index.gc_deletes": "{options.gc_deletes}"}}'
            yield warning("gc_deletes", f"{text}brings a deleted document back", hint)
