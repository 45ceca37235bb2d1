"""Options of `pipeline` for OpenTelemetry: whether batches are traced, and where traces are sent."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Literal
from urllib.parse import urlsplit

from cdc.options import AnyCase, Block, Field, Remark

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


class TraceOptions(Block):
    """Options for traces of batches."""

    traces: Annotated[Literal["none", "otlp"], AnyCase] = Field(
        "none",
        description="With `otlp` each batch is a trace, sent to an OpenTelemetry collector over HTTP. Requires "
        "`pip install 'cdc-pipelines[otel]'`.",
    )
    traces_endpoint: str | None = Field(
        None,
        alias="traces.endpoint",
        description="Where traces are sent, such as `http://collector:4318/v1/traces`. Default: "
        "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`, else this machine, "
        "port 4318.",
    )

    def problems(self) -> Iterator[Remark]:
        """Yield problems of missing packages and of an invalid URL."""
        yield from super().problems()
        if self.traces == "otlp" and not all(map(_is_installed, _NEEDED)):
            hint = "pip install 'cdc-pipelines[otel]', or remove it"
            yield Remark("traces", "needs packages for OpenTelemetry that are not installed", hint)
        if self.traces_endpoint is None:
            return
        if self.traces != "otlp":
            yield Remark("traces.endpoint", "has no effect without traces: otlp", "add traces: otlp, or remove it")
        parts = urlsplit(self.traces_endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield Remark("traces.endpoint", "is not a URL", "write one such as http://collector:4318/v1/traces")
        elif parts.username or parts.password:
            hint = "set the environment variable OTEL_EXPORTER_OTLP_HEADERS: authorization=Basic ..."
            yield Remark("traces.endpoint", "contains a password", hint)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
