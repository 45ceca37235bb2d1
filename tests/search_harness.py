"""The sink for Elasticsearch and OpenSearch in tests: made for a server, and read back as the source's values."""

from __future__ import annotations

import base64
import json
import urllib.error
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sink_calls import TYPES, span

from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import Row
from cdc_services.search.server import SearchServer
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.sink import ElasticsearchSink


def sink_options(server: SearchServer, **more: Any) -> ElasticsearchSinkOptions:
    """Options for a server; `more` by the names of the pipeline file. A server that is gone is not waited for."""
    given = {
        "type": "elasticsearch", "hosts": server.url, "retry-timeout": "300 ms",
        "index.settings.number_of_replicas": "0", "index.settings.number_of_shards": "2",
    }  # fmt: skip
    return ElasticsearchSinkOptions.model_validate(given | more)


@dataclass
class Harness:
    """One pipeline's sink and its indexes; what the conformance suite asks for."""

    server: SearchServer
    state: Path
    pipeline: str = "pipeline-1"
    options: dict[str, Any] = field(default_factory=dict)

    def sink(self, **more: Any) -> ElasticsearchSink:
        """A new sink object on the same state, as after a restart."""
        options = sink_options(self.server, **self.options, **more)
        return ElasticsearchSink(options, Context(self.pipeline, LocalStore(self.state)))

    def documents(self, table: TableId) -> dict[str, Any] | None:
        """The documents behind the table's alias by their ids, None when there is no such alias."""
        alias = str(table).lower()
        try:
            self.server.ask("POST", f"/{alias}/_refresh")
            found = self.server.ask("POST", f"/{alias}/_search", {"size": 10_000})
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}

    def rows(self, table: TableId) -> list[Row] | None:
        """The documents as rows."""
        found = self.documents(table)
        types = TYPES if table.table == "types" else {}
        if found is None:
            return None
        return [{name: _plain(value, types.get(name)) for name, value in row.items()} for row in found.values()]

    def clear(self) -> None:
        """Delete all indexes."""
        for row in self.server.ask("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all"):
            if not row["index"].startswith("."):
                self.server.ask("DELETE", f"/{quote(row['index'])}")


def _plain(value: Any, kind: DataType | None) -> Any:
    """A value of a document as Arrow gives it for a column of the source's type."""
    if value is None or kind is None:
        return value
    match kind.kind:
        case Kind.BIGINT_UNSIGNED:
            return int(value)
        case Kind.DECIMAL if (kind.length or 0) <= 38:
            return Decimal(value)
        case Kind.JSON:
            return json.dumps(value, ensure_ascii=False)
        case Kind.BINARY | Kind.VARBINARY | Kind.BYTES | Kind.GEOMETRY:
            return base64.b64decode(value)
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.TIMESTAMP:
            return datetime.fromisoformat(value)
        case Kind.TIMESTAMP_LTZ:
            return datetime.fromisoformat(value).astimezone(UTC)
        case Kind.TIME:
            return span(value)
    return value
