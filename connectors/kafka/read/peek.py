"""Find the tables in topics for `cdc plan`, from the first messages of each partition. Runs in the driver."""

from __future__ import annotations

from cdc.errors import SchemaUnknown
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.fetch.fetcher import Fetcher
from connectors.kafka.read import consumers, startup
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.offset import topic_partition
from connectors.kafka.read.pending import Pending, assign, collect
from connectors.kafka.read.tables import TopicTables
from connectors.kafka.source_options import KafkaSourceOptions

_MESSAGES = 100
_WAIT_S = 5.0


def peek_schemas(
    cluster: KafkaCluster, policy: RetryPolicy, options: KafkaSourceOptions, pipeline: str
) -> dict[TableId, TableSchema]:
    """The tables, with the schemas that their first messages need. Raises SourceError."""
    tables, formats = TopicTables(options), Formats(options, options.registry(policy, SOURCE))
    found: dict[TableId, TableSchema] = {}
    consumer, reader = consumers.metadata_consumer(cluster, pipeline), consumers.fetcher(cluster, pipeline)
    try:
        names = startup.first_partitions(cluster, policy, options)
        for name, first in startup.beginnings_of(cluster, policy, consumer, names).items():
            topic, number = topic_partition(name)
            part = Pending(topic, number, first)
            assign(reader, [part])
            while len(part) < _MESSAGES and not part.at_end:
                if not read_more(cluster, reader, part):
                    break
            if not part.parts:
                continue
            messages = part.messages()
            written = formats.of(topic, messages)
            for group in written.read(messages).groups:
                if tables.captures(group.table):
                    described = tables.described(group, written)
                    try:
                        found[group.table] = tables.needed(described, found.get(group.table))
                    except SchemaUnknown:
                        if options.unreadable == "fail":
                            raise
    finally:
        consumer.close()
        reader.close()
    return found


def read_more(cluster: KafkaCluster, reader: Fetcher, part: Pending) -> bool:
    """Read more of a partition; False when nothing came in time."""
    found = reader.fetch(_MESSAGES, _WAIT_S)
    collect(cluster, found, {(part.topic, part.partition): part})
    return bool(found)
