"""Exports batches as OpenTelemetry traces: a span per committed batch, and below it one per phase. Driver.

    cdc.batch                 from its start to its commit
      cdc.batch.schema ...    the phases of `cdc.status`, one after the other

The phases of a task alternate with every block of rows, so their spans show durations, not times: each is the sum of a
phase, and they follow each other in processing order. Time outside of all phases is the gap at the end.

Spans wait in a bounded queue and are sent by a separate thread. An unavailable or slow collector only loses spans:
neither a batch nor the end of a run waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from cdc.status.model import PHASES

if TYPE_CHECKING:
    from cdc.progress import BatchReport

END_S = 2.0
"""How long the end of a run waits for the last spans to be sent."""
_PATH = "/v1/traces"
_LIBRARY = "opentelemetry"


class Traces:
    """The traces of one run. Driver, one thread.

    Args:
        name: the pipeline's name; source, sink: its connectors.
        endpoint: where to send traces; None for the endpoint in the environment.
        warn: called once when the collector does not respond. Any thread.
        guest: whether the process belongs to another program, with its own log settings.
    """

    def __init__(
        self,
        name: str,
        source: str,
        sink: str,
        endpoint: str | None,
        warn: Callable[[str], None],
        *,
        guest: bool = False,
    ) -> None:
        if not guest:
            logging.getLogger(_LIBRARY).setLevel(logging.CRITICAL)  # otherwise each failed attempt is a line
        resource = Resource.create({**_service(), "cdc.pipeline": name, "cdc.source": source, "cdc.sink": sink})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=None if endpoint is None else _signal_endpoint(endpoint))
        where = endpoint or "the collector in the environment"
        self._provider.add_span_processor(BatchSpanProcessor(_ReportingExporter(exporter, where, warn)))
        self._tracer = self._provider.get_tracer("cdc")
        self._name = name

    def batch(self, report: BatchReport) -> None:
        """Export a committed batch."""
        end = _ns(report.committed_s)
        start = end - _ns(report.duration_s)
        attributes: dict[str, Any] = {
            "cdc.pipeline": self._name, "cdc.batch": report.batch, "cdc.rows": report.rows,
            "cdc.rows_read": sum(report.read.values()), "cdc.bytes": report.bytes, "cdc.tables": len(report.tables),
            "cdc.schema_changes": len(report.changes), "cdc.position": json.dumps(report.position),
        }  # fmt: skip
        if report.lag_s is not None:
            attributes["cdc.lag_s"] = round(report.lag_s, 3)
        span = self._tracer.start_span("cdc.batch", Context(), SpanKind.CONSUMER, attributes, start_time=start)
        context = set_span_in_context(span)
        for phase in [name for name in PHASES if report.phases.get(name)]:
            until = min(end, start + _ns(report.phases[phase]))
            child = self._tracer.start_span(f"cdc.batch.{phase}", context, start_time=start)
            child.end(until)
            start = until
        span.end(end)

    def record_failure(self, error: BaseException, batch: int | None, now_s: float) -> None:
        """Export an error that stopped the run, or a batch that is restarted."""
        attributes = {"cdc.pipeline": self._name} | ({} if batch is None else {"cdc.batch": batch})
        span = self._tracer.start_span("cdc.failure", Context(), attributes=attributes, start_time=_ns(now_s))
        span.add_event(
            "exception", {"exception.type": type(error).__name__, "exception.message": str(error)}, _ns(now_s)
        )
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(_ns(now_s))

    def close(self) -> None:
        """Send pending spans, for at most `END_S`; the rest is lost when the process ends."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(END_S)


class _ReportingExporter(SpanExporter):
    """Warns once when spans are not accepted, and again after some were."""

    def __init__(self, exporter: SpanExporter, where: str, warn: Callable[[str], None]) -> None:
        self._exporter, self._where, self._warn, self._lost = exporter, where, warn, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS and not self._lost:
            self._warn(f"traces are lost, without other effects: {self._where} does not accept them")
        self._lost = result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _service() -> dict[str, str]:
    """Return the service's name unless the environment has one."""
    named = os.environ.get("OTEL_SERVICE_NAME") or f"{SERVICE_NAME}=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if named else {SERVICE_NAME: "cdc"}


def _signal_endpoint(endpoint: str) -> str:
    """Return the endpoint of the signal: the address of a collector without a path gets the usual one."""
    return endpoint.rstrip("/") + _PATH if urlsplit(endpoint).path in ("", "/") else endpoint


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
