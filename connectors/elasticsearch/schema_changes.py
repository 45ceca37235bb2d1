"""Plan and carry out schema changes as requests to the server. Runs in the driver.

Changes that a field cannot take (of its type or name, or of the key that ids are made of) are refused, and a
re-snapshot helps: the engine then reads the table again into a shadow index, and one update of the alias replaces the
old index by it.
Every plan starts from the indexes that exist. After a crash in the middle of a change, only the rest is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc.errors import ChangeRefused, SinkError
from cdc.evolution.apply import apply_change
from cdc.evolution.journal import Journal
from cdc.process.faults import crash_point
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropShadow,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
    shadow_of,
)
from cdc.state.store import Store
from cdc.types.certain import uncertain
from connectors.elasticsearch.client import ErrorAnswer, name_of
from connectors.elasticsearch.cluster import HINTS, SearchCluster
from connectors.elasticsearch.index import Index, IndexRequest, is_of, move_aliases
from connectors.elasticsearch.mapping import FieldRules, IndexNames, check_field, same_field, same_text, same_value
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.settings import rules_of

_OF_THE_CLUSTER = (401, 403)
"""Status of answers about rights, and about blocks such as those of a full disk."""
_FAILED = 500
"""The lowest status of an answer by which the cluster says that it failed, as over a full disk."""


@dataclass(frozen=True)
class IndexChanges:
    """Changes one pipeline's indexes. `store` has the journal of a batch whose changes are only partly carried out."""

    cluster: SearchCluster
    options: ElasticsearchSinkOptions
    store: Store

    def plan_text(self, changes: Sequence[SchemaChange]) -> list[str]:
        """The requests that `apply` would send now."""
        planner = self._planner(changes)
        return [f"{request.method} {request.path}" for change in changes for request in planner.plan(change)]

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out the remaining changes of a batch, in order. Raises ChangeRefused."""
        journal = Journal(self.store, batch, changes)
        remaining = changes[journal.done :]
        if not remaining:
            return
        self.cluster.wait_for_earlier()
        planner = self._planner(remaining)
        planned = [planner.plan(change) for change in remaining]
        for change, requests in zip(remaining, planned, strict=True):
            for request in requests:
                try:
                    self.cluster.carry_out(request)
                except ErrorAnswer as refused:
                    hints = (hint for reason, hint in HINTS.items() if reason in refused.reason)
                    hint = next(hints, "see the cluster's log")
                    own = refused.status in _OF_THE_CLUSTER or refused.status >= _FAILED
                    kind = SinkError if own else ChangeRefused
                    raise kind(str(refused), where=str(change.table), hint=hint) from None
                crash_point("mid-apply", batch)
            journal.note(journal.done + 1)

    def _planner(self, changes: Sequence[SchemaChange]) -> IndexPlanner:
        tables = list(dict.fromkeys(change.table for change in changes))
        tables += [change.new_table for change in changes if isinstance(change, RenameTable)]
        names = [*tables, *(shadow_of(table) for table in tables)]
        cluster, options = self.cluster, self.options
        # In this order, an index that is created in between is found behind its alias, so no second one is made.
        highest, existing = cluster.highest(tables), cluster.aliased_indexes(names)
        rules = rules_of(options, cluster.product()[0])
        return IndexPlanner(cluster.names, rules, cluster.pipeline, existing, highest, options.settings())


class IndexPlanner:
    """Plans changes one after another.

    Args:
        existing: the indexes behind the aliases of the tables concerned and of their shadow tables, by alias.
        highest: the highest number in the index names of each alias that has any.
        settings: the settings of new indexes.
    """

    def __init__(
        self,
        names: IndexNames,
        rules: FieldRules,
        pipeline: str,
        existing: Mapping[str, Index],
        highest: Mapping[str, int],
        settings: Mapping[str, Any],
    ) -> None:
        self._names, self._rules, self._pipeline, self._settings = names, rules, pipeline, settings
        self._indexes, self._highest = dict(existing), dict(highest)

    def plan(self, change: SchemaChange) -> list[IndexRequest]:
        """The requests that a change still needs. Raises ChangeRefused."""
        return list(self._requests(change))

    def _requests(self, change: SchemaChange) -> Iterator[IndexRequest]:
        match change:
            case CreateTable(table=table, schema=schema):
                yield from self._create(table, schema)
            case CreateShadow(table=table, schema=schema):
                yield from self._drop_shadow(table)
                found = schema or self._index(table).schema
                yield from self._new(shadow_of(table), self._names.alias(table), found, table)
            case SwapShadow(table=table):
                yield from self._swap(table)
            case DropShadow(table=table):
                yield from self._drop_shadow(table)
            case TruncateTable(table=table):
                yield from self._drop_shadow(table)
                yield from self._truncate(table)
            case DropTable(table=table):
                yield from self._drop_shadow(table)
                yield from self._drop(table)
            case RenameTable(table=table, new_table=new_table):
                yield from self._drop_shadow(table)
                yield from self._rename(table, new_table)
            case _:
                yield from self._alter(change)

    def _create(self, table: TableId, schema: TableSchema) -> Iterator[IndexRequest]:
        alias = self._alias(table)
        actual = self._indexes.get(alias)
        if actual is None:
            yield from self._new(table, alias, schema, table)
            return
        if actual.table != table:
            reason = f"the index {actual.name} is that of {actual.table}: names are in lower case"
            raise ChangeRefused(reason, where=str(table), hint="give one of them another name with a route")
        if tuple(actual.schema.primary_key) != tuple(schema.primary_key):
            reason = f"the index {actual.name} is by the key ({', '.join(actual.schema.primary_key)})"
            raise ChangeRefused(
                reason, where=str(table), hint="delete the index, or set index.prefix", resnapshot_helps=True
            )
        new = self._rules.fields(table, schema)
        for name, field in new.items():
            if name in actual.fields and not same_field(actual.fields[name], field):
                raise self._cannot(table, name, f"is {actual.fields[name].get('type')} there", field)
        reused = replace(actual, schema=schema)
        if actual.pipeline != self._pipeline:
            reused = replace(reused, pipeline=self._pipeline, epoch=actual.epoch + 1)
        missing = {name: field for name, field in new.items() if name not in actual.fields}
        if missing or reused != actual:
            yield self._mapping(table, replace(reused, fields={**actual.fields, **missing}), missing)

    def _new(self, table: TableId, alias: str, schema: TableSchema, named: TableId) -> Iterator[IndexRequest]:
        """Create an index with a name made of `alias`, behind the alias of `table`; its mapping names `named`."""
        self._highest[alias] = self._highest.get(alias, 0) + 1
        before = self._get(named)
        epoch = before.epoch if before is not None and before.pipeline == self._pipeline else 1
        fields = self._rules.fields(named, schema)
        name = self._names.index(alias, self._highest[alias])
        routing = self._rules.routing_column(named, schema)
        column = self._rules.sharding_column(named, schema)
        sharding = (column, self._rules.separator if column else "")
        index = Index(name, named, schema, self._pipeline, epoch, fields, routing, sharding)
        self._indexes[self._alias(table)] = index
        aliases = {self._alias(table): {"is_write_index": True} if column else {}}
        body = {"settings": dict(self._settings), "mappings": index.mappings(), "aliases": aliases}
        yield IndexRequest("PUT", f"/{name_of(name)}", body)

    def _swap(self, table: TableId) -> Iterator[IndexRequest]:
        shadow = self._indexes.pop(self._alias(shadow_of(table)), None)
        if shadow is None:  # it replaced the table's index before a crash
            return
        actions = move_aliases(shadow, self._alias(shadow_of(table)), self._alias(table))
        old = self._get(table)
        if old is not None:
            actions += [{"remove_index": {"index": name}} for name in old.parts]
        # Without it, searches find none of the documents until the server's refresh_interval has passed.
        yield IndexRequest("POST", f"/{name_of(self._alias(shadow_of(table)))}/_refresh")
        yield IndexRequest("POST", "/_aliases", {"actions": actions})
        self._indexes[self._alias(table)] = shadow

    def _truncate(self, table: TableId) -> Iterator[IndexRequest]:
        old = self._get(table)
        if old is None:
            return
        between = shadow_of(table)
        yield from self._new(between, self._names.alias(table), old.schema, table)
        yield from self._swap(table)

    def _drop(self, table: TableId) -> Iterator[IndexRequest]:
        old = self._get(table)
        if old is not None:
            del self._indexes[self._alias(table)]
            for name in old.parts:
                yield IndexRequest("DELETE", f"/{name_of(name)}")

    def _drop_shadow(self, table: TableId) -> Iterator[IndexRequest]:
        yield from self._drop(shadow_of(table))

    def _rename(self, table: TableId, new_table: TableId) -> Iterator[IndexRequest]:
        old, conflicting = self._get(table), self._indexes.get(self._alias(new_table))
        if old is None and self._get(new_table) is not None:
            return
        old = self._index(table)
        if conflicting is not None and conflicting.name != old.name:
            reason = f"cannot be renamed to {new_table}: the index {conflicting.name} exists"
            raise ChangeRefused(reason, where=str(table), hint="delete that index, or route one of them elsewhere")
        renamed = replace(old, table=new_table)
        yield self._mapping(table, renamed, {})
        if self._alias(table) != self._alias(new_table):
            actions = move_aliases(old, self._alias(table), self._alias(new_table))
            yield IndexRequest("POST", "/_aliases", {"actions": actions})
        del self._indexes[self._alias(table)]
        self._indexes[self._alias(new_table)] = renamed

    def _alter(self, change: SchemaChange) -> Iterator[IndexRequest]:
        """The requests for a change of columns, key or comments."""
        actual = self._index(change.table)
        match change:
            case AddColumn():
                yield from self._add_column(actual, change)
                return
            case AlterColumnType():
                self._check_type(actual, change)
            case RenameColumn(old_name=name, new_name=new_name):
                if name in actual.schema.names or new_name not in actual.schema.names:
                    raise self._cannot(change.table, name, f"cannot be renamed to {new_name}")
            case RenameColumns(names=names):
                pairs = [(old, new) for old, new in names if old != new]
                renames = ", ".join(f"{old} to {new}" for old, new in pairs)
                raise self._cannot(change.table, pairs[0][0], f"cannot be renamed ({renames})")
            case AlterPrimaryKey(primary_key=key):
                if tuple(key) != tuple(actual.schema.primary_key):
                    reason = "ids of documents are made of the key, which changes"
                    raise ChangeRefused(reason, where=str(change.table), resnapshot_helps=True)
            case DropColumn(name=name):
                if name in actual.schema.names and name in actual.identity_columns:
                    reason = f"ids or routing of documents are made of the column {name}, which is dropped"
                    raise ChangeRefused(reason, where=str(change.table), resnapshot_helps=True)
            case AlterTableComment():
                pass
            case _:
                raise ChangeRefused(f"{type(change).__name__} is not known here", where=str(change.table))
        after = self._after(actual, change)
        if after != actual:
            yield self._mapping(change.table, after, {})

    def _add_column(self, actual: Index, change: AddColumn) -> Iterator[IndexRequest]:
        table, column = change.table, change.column
        if column.name in actual.schema.names:
            return
        check_field(table, column.name)
        field = self._rules.field(table, column)
        if column.name in actual.fields:
            reason = "was dropped before, and older documents still have its values"
            raise self._cannot(table, column.name, reason)
        if column.default is not None:
            reason = f"comes with the default {column.default!r}, which documents that are there do not have"
            raise self._cannot(table, column.name, reason)
        after = replace(self._after(actual, change), fields={**actual.fields, column.name: field})
        yield self._mapping(table, after, {column.name: field})

    def _check_type(self, actual: Index, change: AlterColumnType) -> None:
        """Raise ChangeRefused where the existing field, ids or documents do not fit the column's new type."""
        table, column = change.table, change.column
        field = self._rules.field(table, column)
        if not same_field(actual.fields.get(column.name, {}), field):
            raise self._cannot(table, column.name, f"is {actual.fields[column.name].get('type')} there", field)
        old = next((one.type for one in actual.schema.columns if one.name == column.name), column.type)
        if column.name in actual.identity_columns and not same_text(old, column.type):
            reason = f"is {old} there, and ids or routing of documents are made of its text"
            raise self._cannot(table, column.name, reason)
        if not change.copied:
            self._check_values(table, column, old, keeps=change.keeps)

    def _check_values(self, table: TableId, column: Column, old: DataType, *, keeps: bool) -> None:
        """Raise ChangeRefused where existing documents may have other values than their rows after the change.

        `keeps`: whether the rows keep their old values, as in a merged table.
        """
        found = None if keeps else uncertain(column.type, old)
        if found is not None:
            raise self._cannot(table, column.name, f"was {old}: {found.reason}")
        if not same_value(old, column.type):
            raise self._cannot(table, column.name, f"was {old}, which documents spell otherwise than {column.type}")

    def _after(self, actual: Index, change: SchemaChange) -> Index:
        schema = apply_change(actual.schema, change)
        return actual if schema is None else replace(actual, schema=schema)

    def _mapping(self, table: TableId, index: Index, fields: Mapping[str, Any]) -> IndexRequest:
        alias = self._alias(table)
        self._indexes[alias] = index
        body = {"_meta": index.meta(), "properties": dict(fields)}
        return IndexRequest("PUT", f"/{name_of(alias if index.shards else index.name)}/_mapping", body)

    def _index(self, table: TableId) -> Index:
        found = self._get(table)
        if found is None:
            hint = "it was deleted or renamed in the cluster; `cdc resync` re-snapshots the table"
            raise ChangeRefused("there is no index", where=str(table), hint=hint)
        return found

    def _get(self, table: TableId) -> Index | None:
        """The table's own index; None when there is none, or when it belongs to a table spelled differently."""
        found = self._indexes.get(self._alias(table))
        return found if found is not None and is_of(found, table) else None

    def _alias(self, table: TableId) -> str:
        return self._names.alias(table)

    def _cannot(self, table: TableId, name: str, reason: str, field: Mapping[str, Any] | None = None) -> ChangeRefused:
        expected = f", {field['type']} is wanted" if field else ""
        return ChangeRefused(f"column {name} {reason}{expected}", where=str(table), resnapshot_helps=True)
