"""An index `orders-000001` behind the alias `orders` for each table, as its mapping has it. Pure.

The mapping's `_meta` has the table's schema and the pipeline that writes it:

    {"cdc": {"table": "shop.orders", "schema": {...}, "pipeline": "...", "epoch": 1, "routing": "city"}}

A table with a sharding column (`"sharding": ["city", "_"]`) has an index more for each text of it,
`shop.orders_rome-000001` behind the aliases `shop.orders_rome` and `shop.orders`. The latter is written through for
rows without a text, which are in `shop.orders-000001`, and leads readers to all of them; they come and go together.

A pipeline with new state numbers its batches from the start again; it raises `epoch`, so its documents win over those
of the one before.
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
"""Part of every mapping, as an index template that matches the name may have it otherwise."""
_NUMBER = re.compile(r"-(\d{6})$")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """One request that changes indexes; `body` is sent as JSON."""

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class Index:
    """An index that the sink has made, as its mapping has it.

    Attributes:
        sharding: column for each text of which the table has an index more, and what stands before that in names;
            both empty for none.
        shards: those indexes, by the ends of their names.
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
        """Fields that hold the value of a JSON column; of others documents hold its text."""
        kinds = {name: field.get("type", "object") for name, field in self.fields.items()}
        return frozenset(name for name, kind in kinds.items() if kind in ("object", "flattened", "flat_object"))

    @property
    def number(self) -> int:
        """The number at the end of its name."""
        match = _NUMBER.search(self.name)
        return int(match[1]) if match else 0

    @property
    def placing(self) -> tuple[str, ...]:
        """Columns whose texts say where a row's document is, besides the key."""
        return placing_columns(self.routing, self.sharding)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """Columns of whose texts ids and routing of documents are made."""
        return (*self.schema.primary_key, *self.placing)

    @property
    def parts(self) -> list[str]:
        """Names of its shards, and its own."""
        return [*(self.shard(suffix) for suffix in self.shards), self.name]

    def shard(self, suffix: str) -> str:
        """The name of a shard; its own name without a suffix."""
        return shard_name(self.name, self.sharding[1], suffix)

    def shard_alias(self, alias: str, suffix: str) -> str:
        """The alias of a shard where the table's is `alias`."""
        return f"{alias}{self.sharding[1]}{suffix}"

    def meta(self) -> dict[str, Any]:
        """The `_meta` of its mapping."""
        schema = schema_to_json(self.schema)
        routing: dict[str, Any] = {"routing": self.routing} if self.routing else {}
        routing |= {"sharding": list(self.sharding)} if self.sharding[0] else {}
        of = {"table": table_to_json(self.table), "schema": schema, "pipeline": self.pipeline, "epoch": self.epoch}
        return {"cdc": of | routing}

    def mappings(self) -> dict[str, Any]:
        """Mappings of the request that makes the index, or one of its shards."""
        return {"dynamic": "strict", "_meta": self.meta(), "properties": self.fields, **WHOLE_DOCUMENTS}


def index_of(name: str, definition: Mapping[str, Any]) -> Index | None:
    """The index of an answer to `GET /name`; None for one that somebody else has made."""
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
    """The index of a text, with the number of the index of rows without one; that itself without a suffix."""
    if not suffix:
        return index
    number = _NUMBER.search(index)
    end = number[0] if number else ""
    return f"{index.removesuffix(end)}{separator}{suffix}{end}"


def shard_request(index: Index, alias: str, suffix: str, settings: Mapping[str, Any]) -> IndexRequest:
    """The request that makes a shard of a table's index behind `alias`."""
    aliases = {alias: {"is_write_index": False}, index.shard_alias(alias, suffix): {"is_write_index": True}}
    body = {"settings": dict(settings), "mappings": index.mappings(), "aliases": aliases}
    return IndexRequest("PUT", f"/{name_of(index.shard(suffix))}", body)


def is_of(index: Index, table: TableId) -> bool:
    """Whether an index is a table's own, or its shadow: aliases are in lower case, and tables may differ in that."""
    return table in (index.table, shadow_of(index.table))


def move_aliases(index: Index, old: str, new: str) -> list[dict[str, Any]]:
    """The actions that give an index and its shards the aliases of another name."""
    writes = {"is_write_index": True} if index.sharding[0] else {}
    actions: list[dict[str, Any]] = [
        {"remove": {"index": index.name, "alias": old}},
        {"add": {"index": index.name, "alias": new, **writes}},
    ]
    for suffix in index.shards:
        name = index.shard(suffix)
        before, behind = index.shard_alias(old, suffix), index.shard_alias(new, suffix)
        actions += [{"remove": {"index": name, "alias": alias}} for alias in (old, before)]
        actions.append({"add": {"index": name, "alias": new, "is_write_index": False}})
        actions.append({"add": {"index": name, "alias": behind, "is_write_index": True}})
    return actions


def highest_numbers(names: Sequence[str], alias: str) -> int:
    """The highest number of indexes of an alias among these names; 0 when there is none."""
    numbers = [int(found[1]) for name in names if (found := _NUMBER.search(name)) and name[: found.start()] == alias]
    return max(numbers, default=0)
