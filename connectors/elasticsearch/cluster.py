"""The indexes behind the aliases of tables, and the pipeline's own document. Executors only read them.

The pipeline's document is in the index `cdc-commits`. It contains the last committed batch, which is also the version
of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.elasticsearch.client import ErrorAnswer, SearchClient, name_of
from connectors.elasticsearch.index import (
    WHOLE_DOCUMENTS,
    Index,
    IndexRequest,
    highest_numbers,
    index_of,
    is_of,
    shard_request,
)
from connectors.elasticsearch.mapping import IndexNames

COMMITS = "cdc-commits"
HINTS = {
    "Limit of total fields": "raise index.mapping.total_fields.limit: of an index that is there by PUT _settings, of "
    "new ones with index.settings.mapping.total_fields.limit; or leave columns out with a projection",
    "creates data streams only": "set index.prefix so that no template for data streams matches the names",
}
"""Hints for the errors of changes to indexes, by a part of the server's message."""
_NO_UNSIGNED_LONG = "No handler for type [unsigned_long]"
_LONGEST_LIST = 3_000
"""The most bytes of names in a path: servers take request lines of 4 KB."""


@dataclass(frozen=True)
class SearchCluster:
    """One cluster, as one pipeline sees it."""

    client: SearchClient
    names: IndexNames
    pipeline: str

    def product(self, *, wait: bool = True) -> tuple[str, str]:
        """The product (`opensearch` or `elasticsearch`) and its version. Raises SinkError for any other server."""
        try:
            found = self.client.request("GET", "/", wait=wait)
            number = str(found["version"]["number"])
        except (ErrorAnswer, KeyError, TypeError) as error:
            hint = "check sink.hosts: another program may listen there"
            raise SinkError(f"the server is neither Elasticsearch nor OpenSearch: {error}", hint=hint) from None
        return str(found["version"].get("distribution", "elasticsearch")), number

    def indexes(self, tables: Sequence[TableId]) -> dict[TableId, Index]:
        """The tables' own indexes. Raises as `aliased_indexes`."""
        by_alias = self.aliased_indexes(tables)
        found = {table: by_alias[alias] for table in tables if (alias := self.names.alias(table)) in by_alias}
        return {table: index for table, index in found.items() if is_of(index, table)}

    def index(self, table: TableId) -> Index:
        """The index of a table. Raises SinkError when there is none, and as `aliased_indexes`."""
        found = self.indexes([table]).get(table)
        if found is None:
            hint = "it was deleted or renamed in the cluster; `cdc resync` re-snapshots the table"
            raise SinkError("there is no index", where=str(table), hint=hint)
        return found

    def own_index(self, table: TableId) -> Index:
        """The index of a table. Raises SinkError as `index`, and when another pipeline has taken the index."""
        found = self.index(table)
        if found.pipeline != self.pipeline:
            raise foreign_index_error(found, table)
        return found

    def aliased_indexes(self, tables: Sequence[TableId]) -> dict[str, Index]:
        """The indexes behind the aliases of these tables, by alias.

        An index may belong to a table whose name differs only in case, since aliases are in lower case. Raises
        SinkError for an index that no pipeline has made.
        """
        found: dict[str, Index] = {}
        shards: dict[str, list[str]] = {}
        aliases = {self.names.alias(table): table for table in tables}
        for name, definition in self._definitions(list(aliases)).items():
            for alias in [one for one in definition.get("aliases", {}) if one in aliases]:
                index = index_of(name, definition)
                if index is not None and definition["aliases"][alias].get("is_write_index") is False:
                    shards.setdefault(alias, []).append(_suffix(index, alias, definition["aliases"]))
                    continue
                if index is None:
                    hint = "delete the alias, or set index.prefix so that the names differ"
                    raise SinkError(f"the alias {alias} leads to {name}, which no pipeline has created", hint=hint)
                found[alias] = index
            if name in aliases:
                raise _not_an_alias(name, index_of(name, definition), aliases[name])
        for alias, suffixes in shards.items():
            if alias not in found:
                hint = f"delete those that the alias {alias} leads to; then `cdc resync` re-snapshots the table"
                message = f"the index of {aliases[alias]} is not there, its shards ({', '.join(suffixes)}) are"
                raise SinkError(message, where=str(aliases[alias]), hint=hint)
            found[alias] = replace(found[alias], shards=tuple(sorted(suffixes)))
        return found

    def create_shards(self, table: TableId, suffixes: Iterable[str], settings: Mapping[str, Any]) -> None:
        """Create the missing shards of a table's index. Raises SinkError when another table has the name of one."""
        index, alias = self.index(table), self.names.alias(table)
        for suffix in sorted(set(suffixes) - {*index.shards, ""}):
            own_alias = index.shard_alias(alias, suffix)
            for name in self._definitions([own_alias]):
                hint = "set sharding.suffix.separator so that the names differ, or route that table elsewhere"
                raise SinkError(
                    f"the rows of {suffix} belong into {own_alias}, which is {name}", where=str(table), hint=hint
                )
            try:
                self.carry_out(shard_request(index, alias, suffix, settings))
            except ErrorAnswer as error:
                hint = "see the cluster's log; each text of sharding.suffix.key has an index of its own"
                raise SinkError(str(error), where=own_alias, hint=hint) from None

    def _definitions(self, names: Sequence[str]) -> dict[str, Any]:
        """The definitions of the indexes that exist under these names or aliases, by the indexes' names."""
        found: dict[str, Any] = {}
        for some in _listed(names):
            found |= self.client.request("GET", f"/{some}?ignore_unavailable=true&allow_no_indices=true")
        return found

    def highest(self, tables: Sequence[TableId]) -> dict[str, int]:
        """The highest number in the index names of each table's alias, whether or not the alias leads to the index."""
        found = {}
        for table in tables:
            alias = self.names.alias(table)
            try:
                rows = self.client.request(
                    "GET", f"/_cat/indices/{name_of(alias)}-*?format=json&h=index&expand_wildcards=all"
                )
            except ErrorAnswer as error:
                if error.status != 404:
                    raise
                rows = []
            found[alias] = highest_numbers([str(row["index"]) for row in rows], alias)
        return found

    def delete_retention_s(self, *, own: bool) -> dict[str, float]:
        """`index.gc_deletes` in seconds, of all pipelines' indexes; with `own`, only of this pipeline's."""
        path = "/_all/_mapping?filter_path=*.mappings._meta.cdc.pipeline"
        found = self.client.request("GET", path)
        owners = {name: one["mappings"]["_meta"]["cdc"]["pipeline"] for name, one in found.items()}
        names = [name for name, pipeline in owners.items() if pipeline == self.pipeline or not own]
        seconds: dict[str, float] = {}
        for some in _listed(names):
            path = (
                f"/{some}/_settings/index.gc_deletes?flat_settings=true&include_defaults=true&ignore_unavailable=true"
            )
            for name, one in self.client.request("GET", path).items():
                texts = {**one.get("defaults", {}), **one["settings"]}
                retention = texts["index.gc_deletes"]
                seconds[name] = _seconds(retention)
        return seconds

    def wait_for_earlier(self) -> None:
        """Wait until the cluster has carried out earlier changes, such as those of a run that was killed.

        An account that may not see the cluster's health does not wait. After 20 s the run goes on in any case.
        """
        with suppress(ErrorAnswer, SinkError):
            self.client.request("GET", "/_cluster/health?wait_for_events=languid&timeout=20s", wait=False)

    def carry_out(self, request: IndexRequest) -> None:
        """Send a request that changes indexes. Repeating it after a lost answer is safe.

        A server without unsigned_long gets keyword fields instead. Raises ErrorAnswer.
        """
        try:
            self.client.request(request.method, request.path, request.body)
        except ErrorAnswer as error:
            is_deleted = request.method == "DELETE" and error.status == 404
            exists = request.method == "PUT" and error.kind == "resource_already_exists_exception"
            if is_deleted or exists or (error.status == 404 and self._leads(request)):
                return
            if _NO_UNSIGNED_LONG not in error.reason:
                raise
            self.client.request(request.method, request.path, _with_keywords(request.body))

    def _leads(self, request: IndexRequest) -> bool:
        """Whether all aliases that a request adds point to their indexes already."""
        actions = request.body.get("actions", ()) if request.path == "/_aliases" else ()
        added = [action["add"] for action in actions if "add" in action]
        definitions = {one["alias"]: self._definitions([one["alias"]]) for one in added}
        return bool(added) and all(one["index"] in definitions[one["alias"]] for one in added)

    def refresh(self, tables: Sequence[TableId]) -> None:
        """Make the stored documents visible to searches."""
        for table in dict.fromkeys(tables):
            self.client.request("POST", f"/{name_of(self.names.alias(table))}/_refresh")

    def has_documents(self, table: TableId) -> bool:
        """Whether the index of a table has documents."""
        self.refresh([table])
        path = f"/{name_of(self.names.alias(table))}/_search?size=0&terminate_after=1&track_total_hits=true"
        return int(self.client.request("GET", path)["hits"]["total"]["value"]) > 0

    def last_batch(self) -> int:
        """The last committed batch of the pipeline; -1 when there is none."""
        return int(self._last_commit().get("batch", -1))

    def counts_of(self, batch: int) -> dict[str, int]:
        """The noted counts of rows that a batch's commit left out; empty for any batch but the last one."""
        last = self._last_commit()
        return dict(json.loads(last.get("counts", "{}"))) if last.get("batch") == batch else {}

    def create_commits_index(self) -> None:
        """Create the index of the pipelines' documents unless it exists; a cluster may not create it by itself."""
        settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
        fields = {"pipeline": {"type": "keyword"}, "batch": {"type": "long"}}
        mappings = {"dynamic": False, "properties": fields, **WHOLE_DOCUMENTS}
        try:
            self.carry_out(IndexRequest("PUT", f"/{COMMITS}", {"settings": settings, "mappings": mappings}))
        except ErrorAnswer as error:
            blocked = error.kind == "cluster_block_exception"
            grant = "grant the user the privilege to create this index, or create it"
            hint = "let the cluster accept writes again" if blocked else grant
            raise SinkError(str(error), where=COMMITS, hint=hint) from None

    def _last_commit(self) -> dict[str, Any]:
        try:
            found = self.client.request("GET", f"/{COMMITS}/_doc/{name_of(self.pipeline)}")
        except ErrorAnswer as error:
            if error.status == 404:
                return {}
            raise SinkError(str(error), where=COMMITS) from None
        noted: dict[str, Any] = found["_source"]
        return noted

    def note_batch(self, batch: int, counts: Mapping[str, int]) -> None:
        """Note that a batch is committed, with the counts of the rows that were left out."""
        path = f"/{COMMITS}/_doc/{name_of(self.pipeline)}?version={batch + 1}&version_type=external_gte"
        try:
            self.client.request(
                "PUT", path, {"pipeline": self.pipeline, "batch": batch, "counts": json.dumps(dict(counts))}
            )
        except ErrorAnswer as error:
            hint = "end the other run of this pipeline" if error.status == 409 else ""
            raise SinkError(str(error), where=COMMITS, hint=hint) from None


def _suffix(index: Index, alias: str, aliases: Mapping[str, Mapping[str, Any]]) -> str:
    """The suffix in a shard's name, from the shard's own alias."""
    begin = index.shard_alias(alias, "")
    write_indexes = (one for one, more in aliases.items() if more.get("is_write_index") and one.startswith(begin))
    return next(write_indexes, begin).removeprefix(begin)


def foreign_index_error(index: Index, table: TableId) -> SinkError:
    """The error about an index that another pipeline has taken."""
    hint = "end this one; of two pipelines only the one that began last writes a table's index"
    return SinkError(f"the index {index.name} is used by another pipeline", where=str(table), hint=hint)


def _not_an_alias(name: str, index: Index | None, table: TableId) -> SinkError:
    """The error about an index that has the name of a table's alias; `index` is None if no pipeline has made it."""
    if index is None:
        hint = "delete or reindex it, or set index.prefix so that the names differ"
        return SinkError(f"{name} is an index, not an alias: no pipeline has created it", where=str(table), hint=hint)
    hint = "route one of the two tables to another name"
    return SinkError(f"its alias would be {name}, which is the index of {index.table}", where=str(table), hint=hint)


def _listed(names: Iterable[str]) -> Iterator[str]:
    """Join names with commas into parts of paths, each short enough for a request line."""
    some: list[str] = []
    for name in map(name_of, names):
        if some and sum(map(len, some)) + len(some) + len(name) > _LONGEST_LIST:
            yield ",".join(some)
            some = []
        some.append(name)
    if some:
        yield ",".join(some)


def _with_keywords(body: Any) -> Any:
    """The mapping with keyword fields instead of unsigned_long."""
    if isinstance(body, dict):
        if body.get("type") == "unsigned_long":
            return {"type": "keyword"}
        return {name: _with_keywords(value) for name, value in body.items()}
    return body


_UNITS_S = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str) -> float:
    """The seconds of a time as the server writes it, such as `5m`; 0 for one that is negative or has no unit."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-z]+)", text.strip())
    return float(found[1]) * _UNITS_S.get(found[2], 0.0) if found else 0.0
