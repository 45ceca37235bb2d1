"""Find documents whose place is unknown: of deletes with only a key, and of updates without the old row.

Such a document may be in any shard, so the driver searches for it before it sends later changes. Each has a line:

    {"id": "7"}                                                deleted wherever it is
    {"id": "7", "index": "shop.orders-1", "routing": "Rom"}    deleted unless it is where the new row belongs
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind
from cdc.types.text import plain
from connectors.elasticsearch.client import SearchClient, name_of
from connectors.elasticsearch.documents import DocumentTarget, document_ids, shard_suffixes
from connectors.elasticsearch.index import shard_name

_SEARCHED = 1_000
"""The number of documents that one search asks for: a tenth of what every index allows."""


def looked_for(block: ChangeBlock, key: Sequence[str], of: DocumentTarget) -> tuple[pa.Array | None, ChangeBlock]:
    """The lines of the documents to find (None when there are none), and the changes to send after that.

    Earlier changes of such a document are dropped, because the lookup deletes all that exists of it.
    """
    kinds = block.kinds.to_numpy(zero_copy_only=False)
    unknown = _unknown(block, kinds, key)
    if not unknown.any():
        return None, block
    ids = document_ids(block.rows, key).dictionary_encode()
    number, row = ids.indices.to_numpy(zero_copy_only=False), np.arange(len(kinds))
    last = np.full(len(ids.dictionary), -1)
    np.maximum.at(last, number[unknown], row[unknown])
    final = (row > last[number]) | ((row == last[number]) & (kinds == RowKind.UPDATE_AFTER))
    chosen = np.sort(last[last >= 0])
    targets = _places(block.rows.take(pa.array(chosen)), of)
    lines = [
        json.dumps({"id": ids.dictionary[number[at]].as_py()} | (place_of if final[at] else {})) + "\n"
        for at, place_of in zip(chosen.tolist(), targets, strict=True)
    ]
    return pa.array(lines, pa.string()), block.filter(final)


def _places(rows: pa.RecordBatch, of: DocumentTarget) -> list[dict[str, str]]:
    """The index and routing of the documents of these rows."""
    routing = plain(rows.column(of.routing)).to_pylist() if of.routing else [""] * rows.num_rows
    indexes = [of.index] * rows.num_rows
    if of.sharding[0]:
        suffixes = shard_suffixes(rows, of).to_pylist()
        indexes = [shard_name(of.index, of.sharding[1], suffix) for suffix in suffixes]
    return [{"index": index, "routing": text or ""} for index, text in zip(indexes, routing, strict=True)]


def _unknown(block: ChangeBlock, kinds: np.ndarray, key: Sequence[str]) -> np.ndarray:
    """A mask (bool[n]) of the changes that do not tell which routing their document had.

    A row with only NULLs besides its key counts too, because it looks the same as a key alone.
    """
    removed = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
    for name in (name for name in block.schema.names if name not in key):
        removed = removed & block.rows.column(name).is_null().to_numpy(zero_copy_only=False)
    paired = np.concatenate(([False], kinds[:-1] == RowKind.UPDATE_BEFORE))
    found: np.ndarray = removed | ((kinds == RowKind.UPDATE_AFTER) & ~paired)
    return found


def deletes_of(client: SearchClient, alias: str, version: int, lines: bytes) -> bytes:
    """The body that deletes these documents wherever they are found. Driver.

    The search covers everything that was sent before. Raises SinkError, SinkUnavailable.
    """
    requests = [json.loads(line) for line in lines.splitlines()]
    found = []
    for first in range(0, len(requests), _SEARCHED):
        part = {item["id"]: (item.get("index"), item.get("routing")) for item in requests[first : first + _SEARCHED]}
        for id_, index, routing in _hits(client, alias, list(part)):
            if part[id_] != (index, routing):
                action: dict[str, Any] = {"_index": index, "version": version, "version_type": "external_gte"}
                action |= {"_id": id_} | ({"routing": routing} if routing else {})
                found.append(json.dumps({"delete": action}) + "\n")
    return "".join(found).encode()


def _hits(client: SearchClient, alias: str, ids: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Id, index and routing of the documents with these ids; an id that exists in two places comes twice."""
    request = {"query": {"ids": {"values": list(ids)}}, "size": 2 * len(ids), "_source": False}
    answer = client.request("POST", f"/{name_of(alias)}/_search?allow_partial_search_results=false", request)
    for hit in answer["hits"]["hits"]:
        yield hit["_id"], hit["_index"], hit.get("_routing", "")
