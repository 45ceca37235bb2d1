"""The index `orders-000001` behind the alias `orders` of each table, as read from its mapping. Pure.

The mapping's `_meta` contains the table's schema and the pipeline that writes it:

    {"cdc": {"table": "shop.orders", "schema": {...}, "pipeline": "...", "epoch": 1, "routing": "city"}}

A table with a sharding column (`"sharding": ["city", "_"]`) has a further index, called a shard, for each text of that
column: `shop.orders_rome-000001` behind the aliases `shop.orders_rome` and `shop.orders`. Rows without a text are
written through the alias `shop.orders` into `shop.orders-000001`; readers find all rows through that alias. The indexes
of a table are created, swapped and deleted together.

A pipeline with a new state directory numbers its batches from the start again, so it raises `epoch`: its documents then
have higher versions than those of the pipeline before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.schema import TableId, TableSchema, shadow_of
from cdc.schema_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from connectors.elasticsearch.client import name_of
from connectors.elasticsearch.mapping import placing_columns

WHOLE_DOCUMENTS = {
    "_source": {"enabled": True, "includes": [], "excludes": []}, "_routing": {"required": False},
}  # fmt: skip
"""Part of every mapping, because an index template that matches the name may set these otherwise."""
_NUMBER = re.compile(r"-(\d{6})$")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """One request that changes indexes; `body` is sent as JSON."""

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class Index:
    """An index that the sink has made, as read from its mapping.

    Attributes:
        sharding: the column that has a shard for each of its texts, and the separator before the text in the shards'
            names; both empty for none.
        shards: the shards by the suffixes of their names.
    """

    name: str
    table: TableId
    schema: TableSchema
    pipeline: str
    epoch: int
    fields: Mapping[str, Any]
    routing: str = ""
    sharding: tuple[str, str] = ("", "")
    shards: tuple[str, ...] = ()

    @property
    def objects(self) -> frozenset[str]:
        """The JSON columns that documents hold as values; they hold the others as text."""
        kinds = {name: field.get("type", "object") for name, field in self.fields.items()}
        return frozenset(name for name, kind in kinds.items() if kind in ("object", "flattened", "flat_object"))

    @property
    def number(self) -> int:
        """The number at the end of the index's name."""
        match = _NUMBER.search(self.name)
        return int(match[1]) if match else 0

    @property
    def placing(self) -> tuple[str, ...]:
        """The columns besides the key that determine where a document is."""
        return placing_columns(self.routing, self.sharding)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """The columns whose texts make up the id and the routing of a document."""
        return (*self.schema.primary_key, *self.placing)

    @property
    def parts(self) -> list[str]:
        """The names of the shards and of the index itself."""
        return [*(self.shard(suffix) for suffix in self.shards), self.name]

    def shard(self, suffix: str) -> str:
        """The name of the shard with that suffix; of the index itself for an empty suffix."""
        return shard_name(self.name, self.sharding[1], suffix)

    def shard_alias(self, alias: str, suffix: str) -> str:
        """The shard's own alias, where the table's alias is `alias`."""
        return f"{alias}{self.sharding[1]}{suffix}"

    def meta(self) -> dict[str, Any]:
        """The `_meta` of the mapping."""
        schema = schema_to_json(self.schema)
        routing: dict[str, Any] = {"routing": self.routing} if self.routing else {}
        routing |= {"sharding": list(self.sharding)} if self.sharding[0] else {}
        of = {"table": table_to_json(self.table), "schema": schema, "pipeline": self.pipeline, "epoch": self.epoch}
        return {"cdc": of | routing}

    def mappings(self) -> dict[str, Any]:
        """The mappings in the request that creates the index, or one of its shards."""
        return {"dynamic": "strict", "_meta": self.meta(), "properties": self.fields, **WHOLE_DOCUMENTS}


def index_of(name: str, definition: Mapping[str, Any]) -> Index | None:
    """The index in an answer to `GET /name`; None when no pipeline has made it."""
    mappings = definition.get("mappings", {})
    meta = mappings.get("_meta", {}).get("cdc")
    if meta is None:
        return None
    schema = schema_from_json(meta["schema"])
    fields = mappings.get("properties", {})
    pipeline, routing = str(meta["pipeline"]), str(meta.get("routing", ""))
    column, separator = meta.get("sharding", ("", ""))
    return Index(
        name, table_from_json(meta["table"]), schema, pipeline, int(meta["epoch"]), fields, routing, (column, separator)
    )


def shard_name(index: str, separator: str, suffix: str) -> str:
    """The name of an index's shard, with the same number; the index's own name for an empty suffix."""
    if not suffix:
        return index
    number = _NUMBER.search(index)
    end = number[0] if number else ""
    return f"{index.removesuffix(end)}{separator}{suffix}{end}"


def shard_request(index: Index, alias: str, suffix: str, settings: Mapping[str, Any]) -> IndexRequest:
    """The request that creates a shard of a table's index behind `alias`."""
    aliases = {alias: {"is_write_index": False}, index.shard_alias(alias, suffix): {"is_write_index": True}}
    body = {"settings": dict(settings), "mappings": index.mappings(), "aliases": aliases}
    return IndexRequest("PUT", f"/{name_of(index.shard(suffix))}", body)


def is_of(index: Index, table: TableId) -> bool:
    """Whether an index is that of the table or of its shadow table. Tables that differ only in case share an alias."""
    return table in (index.table, shadow_of(index.table))


def move_aliases(index: Index, old: str, new: str) -> list[dict[str, Any]]:
    """The actions that replace the aliases of an index and its shards by those of another name."""
    writes = {"is_write_index": True} if index.sharding[0] else {}
    actions: list[dict[str, Any]] = [
        {"remove": {"index": index.name, "alias": old}},
        {"add": {"index": index.name, "alias": new, **writes}},
    ]
    for suffix in index.shards:
        name = index.shard(suffix)
        before, after = index.shard_alias(old, suffix), index.shard_alias(new, suffix)
        actions += [{"remove": {"index": name, "alias": alias}} for alias in (old, before)]
        actions.append({"add": {"index": name, "alias": new, "is_write_index": False}})
        actions.append({"add": {"index": name, "alias": after, "is_write_index": True}})
    return actions


def highest_numbers(names: Sequence[str], alias: str) -> int:
    """The highest number among the index names that belong to the alias; 0 when there is none."""
    numbers = [int(found[1]) for name in names if (found := _NUMBER.search(name)) and name[: found.start()] == alias]
    return max(numbers, default=0)
