"""Read a table's documents back for `cdc verify`, from `_source`, which holds every value as it was sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.errors import SinkError
from cdc.schema import Kind, TableSchema
from cdc.types.kinds import BLOBS
from cdc.types.text import decimals
from connectors.elasticsearch.client import ErrorAnswer, SearchClient, name_of
from connectors.elasticsearch.documents import document_ids
from connectors.elasticsearch.index import Index

_PAGE_BYTES = 16 * 2**20
_MOST_IN_PAGE = 5_000
_MOST_KEYS = 1_000
_SAMPLE = 20


class Documents:
    """An index as a `cdc.sink.StoredTable`. A DECIMAL outside the key is a text; JSON is compared by value."""

    def __init__(self, client: SearchClient, alias: str, schema: TableSchema, index: Index) -> None:
        self._client, self._alias, self._schema, self._index = client, alias, schema, index
        self.arrow = pa.schema(
            [pa.field(column.name, _arrow(column.name, column.type, schema)) for column in schema.columns]
        )

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read all documents in one scroll, or those of the given keys by id."""
        pages = self._scroll_all() if keys is None else self._looked_up(keys)
        for page in pages:
            if page:
                yield self._batch(page)

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with their values as documents hold them."""
        columns = [self._convert(values, index) for index, values in enumerate(rows.columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _convert(self, values: pa.Array, index: int) -> pa.Array:
        column, target = self._schema.columns[index], self.arrow.field(index).type
        if column.type.kind is Kind.JSON:
            return pa.array([None if text is None else _json(text) for text in values.to_pylist()], pa.string())
        if pa.types.is_floating(target):
            return pc.add(values, pa.scalar(0.0, target))  # -0.0 is read back as the number 0
        if values.type == target:
            return values
        return decimals(values) if pa.types.is_decimal(values.type) else values.cast(target)

    @cached_property
    def _documents_in_page(self) -> int:
        """How many documents have about `_PAGE_BYTES` of JSON, as the first ones do: a cluster bounds no answer."""
        first = self._request("POST", f"/{name_of(self._alias)}/_search", {"size": _SAMPLE, "sort": ["_doc"]})
        sizes = [len(json.dumps(hit["_source"])) for hit in first["hits"]["hits"]]
        return max(1, _PAGE_BYTES * len(sizes) // sum(sizes)) if sizes else _MOST_IN_PAGE

    def _scroll_all(self) -> Iterator[list[dict[str, Any]]]:
        path = f"/{name_of(self._alias)}"
        self._request("POST", f"{path}/_refresh")
        page = {"size": min(self._documents_in_page, _MOST_IN_PAGE), "sort": ["_doc"]}
        found = self._request("POST", f"{path}/_search?scroll=5m", page)
        try:
            while found["hits"]["hits"]:
                yield [hit["_source"] for hit in found["hits"]["hits"]]
                found = self._request("POST", "/_search/scroll", {"scroll": "5m", "scroll_id": found["_scroll_id"]})
        finally:
            self._request("DELETE", "/_search/scroll", {"scroll_id": [found["_scroll_id"]]})

    def _looked_up(self, keys: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
        length = min(self._documents_in_page, _MOST_KEYS)
        for start in range(0, keys.num_rows, length):
            some = keys.slice(start, length)
            ids = document_ids(some, self._schema.primary_key).to_pylist()
            if self._index.placing:  # the key does not tell the shard, so all are searched
                yield self._find_by_ids(ids)
                continue
            found = self._request("POST", f"/{name_of(self._alias)}/_mget", {"ids": ids})
            yield [item["_source"] for item in found["docs"] if item.get("found")]

    def _find_by_ids(self, ids: list[str]) -> list[dict[str, Any]]:
        path = f"/{name_of(self._alias)}"
        self._request("POST", f"{path}/_refresh")
        # Twice as many, so that a document that wrongly exists in two shards is reported, not cut off.
        found = self._request("POST", f"{path}/_search", {"size": 2 * len(ids), "query": {"ids": {"values": ids}}})
        return [hit["_source"] for hit in found["hits"]["hits"]]

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._client.request(method, path, body)
        except ErrorAnswer as error:
            raise SinkError(str(error), where=self._alias) from None

    def _batch(self, documents: list[dict[str, Any]]) -> pa.RecordBatch:
        columns = []
        for column, field in zip(self._schema.columns, self.arrow, strict=True):
            values = [document.get(column.name) for document in documents]
            if column.name not in self._index.objects:
                values = [_value(value, column.type.kind) for value in values]
            elif column.type.kind is Kind.JSON:
                values = [_spelled(value) for value in values]
            columns.append(_as(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)


def _arrow(name: str, kind: Any, schema: TableSchema) -> pa.DataType:
    """The Arrow type to read: text for a DECIMAL outside the key, otherwise the pipeline's own type."""
    if kind.kind is Kind.DECIMAL and name not in schema.primary_key:
        return pa.string()
    return arrow_type(kind)


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind is Kind.JSON:
        return _json(str(value))
    return base64.b64decode(value) if kind in BLOBS else value


def _as(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The documents' values as an array of the column's type."""
    if pa.types.is_timestamp(kind):
        texts = pa.array([None if value is None else str(value).removesuffix("Z") for value in values], pa.string())
        return (
            texts.cast(pa.timestamp("us")).cast(kind)
            if kind.tz is None
            else texts.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
        )
    if pa.types.is_duration(kind):
        return pa.array([None if value is None else _span(str(value)) for value in values], pa.int64()).view(kind)
    if pa.types.is_date(kind) or pa.types.is_decimal(kind) or pa.types.is_uint64(kind):
        return pa.array([None if value is None else str(value) for value in values], pa.string()).cast(kind)
    return pa.array(values, kind)


def _span(text: str) -> int:
    """The microseconds of a text such as `-838:59:59.000000`."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole_seconds, _, fraction = seconds.partition(".")
    size = ((int(hours) * 60 + int(minutes)) * 60 + int(whole_seconds)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    return -size if text.startswith("-") else size


def _json(text: str) -> str | None:
    """The value of a JSON text, in a canonical spelling."""
    return _spelled(json.loads(text))


def _spelled(value: Any) -> str | None:
    """A JSON value in a canonical spelling; None for `null`, for which a document has no field, as for NULL."""
    return None if value is None else json.dumps(value, sort_keys=True)
