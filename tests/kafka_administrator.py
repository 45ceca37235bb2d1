"""Kafka's own admin client, for what `kafka-transactions.sh` does and librdkafka cannot: aborting open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka_servers import missing_broker
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from cdc_services.kafka.install import find

_GOING_ON = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which a coordinator still is to end a transaction."""


class Administrator:
    """Aborts what is open in partitions, whatever the transaction's coordinator says of it."""

    def __init__(self, jvm: Any, bootstrap: str) -> None:
        settings = jvm.java.util.Properties()
        settings.setProperty("bootstrap.servers", bootstrap)
        self._jvm, self._api = jvm, jvm.org.apache.kafka.clients.admin
        self._client = self._api.Admin.create(settings)

    def abort_open(self, topic: str, *others: str) -> int:
        """Abort all open transactions that write to a topic, there and in other topics; in how many partitions."""
        own = self._open(topic)
        writing = {producer.producerId() for _, producer in own}
        also = [found for other in others for found in self._open(other) if found[1].producerId() in writing]
        for partition, producer in [*own, *also]:
            self._abort(partition, producer)
        return len(own) + len(also)

    def open_in(self, *topics: str) -> tuple[list[str], list[str]]:
        """Partitions of topics where a transaction is open; and those of them whose coordinator has it as ended."""
        lost = self._lost(*topics)
        return [str(found[0]) for topic in topics for found in self._open(topic)], [str(found[0]) for found in lost]

    def abort_lost(self, *topics: str) -> int:
        """Abort what is open in partitions of topics although its coordinator has ended it; in how many."""
        lost = self._lost(*topics)
        for partition, producer in lost:
            self._abort(partition, producer)
        return len(lost)

    def _lost(self, *topics: str) -> list[tuple[Any, Any]]:
        listed = self._client.listTransactions().all().get()
        going = {each.producerId() for each in listed if str(each.state()) in _GOING_ON}
        return [found for topic in topics for found in self._open(topic) if found[1].producerId() not in going]

    def _abort(self, partition: Any, producer: Any) -> None:
        epochs = producer.producerEpoch(), producer.coordinatorEpoch().orElse(0)
        self._client.abortTransaction(
            self._api.AbortTransactionSpec(partition, producer.producerId(), *epochs)
        ).all().get()

    def _open(self, topic: str) -> list[tuple[Any, Any]]:
        """The partitions of a topic with a transaction that is open there, each with its producer."""
        partitions = self._partitions(topic)
        states = self._client.describeProducers(partitions).all().get()
        found = ((each, producer) for each in partitions for producer in states.get(each).activeProducers())
        return [(each, producer) for each, producer in found if producer.currentTransactionStartOffset().isPresent()]

    def _partitions(self, topic: str) -> Any:
        names = self._jvm.java.util.ArrayList()
        if not self._client.listTopics(self._all()).names().get().contains(topic):
            return names
        names.add(topic)
        count = self._client.describeTopics(names).allTopicNames().get().get(topic).partitions().size()
        found = self._jvm.java.util.ArrayList()
        for number in range(count):
            found.add(self._jvm.org.apache.kafka.common.TopicPartition(topic, number))
        return found

    def _all(self) -> Any:
        return self._api.ListTopicsOptions().listInternal(True)

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()


@contextmanager
def administrator(bootstrap: str) -> Iterator[Administrator]:
    """An admin client in a Java of its own, which ends with the block."""
    installed, spark = find(), find_spec("pyspark")
    if installed is None or spark is None or spark.origin is None:
        missing_broker()
    (jar,) = (Path(spark.origin).parent / "jars").glob("py4j*.jar")
    port = launch_gateway(
        jarpath=str(jar), classpath=str(installed.libs / "*"), java_path=str(installed.java), javaopts=["-Xmx128m"],
        die_on_exit=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        made = Administrator(gateway.jvm, bootstrap)
        try:
            yield made
        finally:
            made.close()
    finally:
        gateway.shutdown()
