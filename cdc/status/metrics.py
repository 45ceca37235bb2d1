"""Status documents as metrics for Prometheus: read at the moment of the scrape."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cdc.errors import EngineError
from cdc.status.exposition import Exposition
from cdc.status.families import ALIASES, FAMILIES, TABLE_FAMILIES, Family
from cdc.status.file import Seen
from cdc.status.model import StatusDocument

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

ALL: tuple[Family, ...] = (*FAMILIES, *ALIASES, *TABLE_FAMILIES)
_BY_TABLE = frozenset(family.name for family in TABLE_FAMILIES)
OTHERS = "(other)"
"""The label of the tables that have no series of their own, all together."""
MOST_TABLES = 500
"""Tables of a pipeline with series of their own. 10,000 tables with 4 series each would be more than most Prometheus
servers are made for; what is beyond is summed up."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Collected(Collector):
    """Reads documents when it is scraped.

    Args:
        documents: the pipelines as of now.
        most_tables: of each pipeline, so many tables have series of their own: those that were there first, so that a
            series never moves to `(other)`.
    """

    def __init__(self, documents: Callable[[], Iterable[Seen]], most_tables: int = MOST_TABLES) -> None:
        self._documents, self._most = documents, most_tables
        self._own: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of the first scrape: documents may not be there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of all pipelines."""
        documents = self.documents()
        for family in ALL:
            metric = _metric(family)
            for seen in documents:
                for labels, value in self.samples(family, seen):
                    metric.add_metric((seen.status.name, *labels), value)
            yield metric

    def documents(self) -> list[Seen]:
        """The pipelines as of now."""
        documents = list(self._documents())
        for seen in documents:
            self._note_tables(seen.status)
        return documents

    def samples(self, family: Family, seen: Seen) -> Iterable[tuple[tuple[str, ...], float]]:
        """The values of one family of one pipeline, by labels."""
        if family.name in _BY_TABLE:
            return (((table,), value) for table, value in self._by_table(family, seen).items())
        return ((labels, value) for labels, value in family.read(seen) if value is not None)

    def _note_tables(self, status: StatusDocument) -> None:
        own = self._own[status.name]
        for table in status.tables:
            if len(own) >= self._most:
                return
            own.setdefault(table.table)

    def _by_table(self, family: Family, seen: Seen) -> dict[str, float]:
        own, sums = self._own[seen.status.name], dict[str, float]()
        for (table,), value in family.read(seen):
            if value is not None:
                label = table if table in own else OTHERS
                sums[label] = sums.get(label, 0.0) + value
        return sums


def _metric(family: Family) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.text, labels=("pipeline", *family.labels))


def metrics_text(documents: Callable[[], Iterable[Seen]], most_tables: int = MOST_TABLES) -> Callable[[], bytes]:
    """A function that gives the metrics in Prometheus's text format, each time it is called."""
    collected = Collected(documents, most_tables)
    exposition, turn = Exposition(ALL, collected.samples), threading.Lock()

    def text() -> bytes:
        with turn:
            return exposition.text(collected.documents())

    return text


class MetricsServer:
    """`/metrics` of one run, over HTTP, without a login: numbers and names of tables. Driver.

    It is told of each new document, and shows the last one.
    """

    def __init__(self, most_tables: int = MOST_TABLES) -> None:
        self._seen: dict[str, Seen] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(Collected(lambda: [*self._seen.values()], most_tables))
        self._server: WSGIServer | None = None

    def __call__(self, status: StatusDocument) -> None:
        """A new document of a run of this process, which lives."""
        self._seen[status.name] = Seen(status, alive=status.state not in ("ended", "failed"))

    def start(self, host: str, port: int) -> int:
        """Listen; the port, which was chosen when it is 0. Raises EngineError when that cannot be."""
        try:
            self._server, _ = start_http_server(port, host, registry=self._registry)
        except (OSError, OverflowError) as error:
            reason = f"metrics cannot be served at {host}:{port}: {error}"
            raise EngineError(reason, hint="choose another --metrics-port or --metrics-host") from error
        return int(self._server.server_port)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
