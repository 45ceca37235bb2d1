"""Entries of the table log: their format, and the state of all tables that they add up to. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from cdc.schema import TableId, TableSchema
from cdc.schema_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from cdc.tables.states import Pair, PairState, Schemas, SinkState, Tables

Json = Mapping[str, Any]

_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True)
class TableViews:
    """The tables of a pipeline at the end of a batch.

    Attributes:
        source: schemas of the source tables.
        rules: the same tables after the transform rules.
        sink: schemas of the sink tables.
        pairs: states of pairs.
        sinks: states of sink tables that differ from the default state.
        rule_texts: the rules' SQL text of each column, by source table; that of the filter under "".
        routes: the routes of the batch (`RouteTable.to_json`); None before the first batch.
    """

    source: Schemas = field(default_factory=dict)
    rules: Schemas = field(default_factory=dict)
    sink: Schemas = field(default_factory=dict)
    pairs: Mapping[Pair, PairState] = field(default_factory=dict)
    sinks: Mapping[TableId, SinkState] = field(default_factory=dict)
    rule_texts: Mapping[TableId, Mapping[str, str]] = field(default_factory=dict)
    routes: Json | None = None

    @property
    def tables(self) -> Tables:
        """The tables that routes and behaviors apply to: those of the source after the rules."""
        return Tables(self.rules, self.sink, self.pairs, self.sinks, self.routes)

    def with_tables(self, tables: Tables) -> TableViews:
        """The views after a batch that has turned `tables` into these; the views of the source stay."""
        return replace(self, sink=tables.sinks, pairs=tables.pairs, sinks=tables.states, routes=tables.routes)


@dataclass(frozen=True, slots=True)
class Try:
    """The operations of one try of a batch, which were applied or about to be applied.

    Attributes:
        operations: the name of each schema change (`cdc.schema_json.change_name`) and its sink table, in order.
        digest: of all schema changes; empty if there are none.
        renames: renames of sink tables among them, as (old name, new name), in order.
        sink: the schemas of changed sink tables after it, None for removed ones.
    """

    operations: tuple[tuple[str, TableId], ...] = ()
    digest: str = ""
    renames: tuple[tuple[TableId, TableId], ...] = ()
    sink: Mapping[TableId, TableSchema | None] = field(default_factory=dict, compare=False)

    def is_renamed_otherwise(self, now: Try) -> bool:
        """Whether another try of the batch, `now`, needs the tables under their names from before the renames.

        That is so if it has other renames, or creates a table otherwise that this try has created and then renamed.
        """
        return self.renames != now.renames or (self.digest != now.digest and self._renames_created())

    def _renames_created(self) -> bool:
        names = [("create.table", table) for table, _ in self.renames]
        renames = [at for at, (name, _) in enumerate(self.operations) if name == "rename.table"]
        return any(each in self.operations[:at] for each, at in zip(names, renames, strict=True))

    def last_name(self, table: TableId) -> TableId:
        """The name of a sink table after the renames."""
        for old, new in self.renames:
            table = new if table == old else table
        return table

    def by_first_names(self) -> Iterator[tuple[str, TableId]]:
        """Yield the operations with the name that their sink table had before all of them."""
        renames, first = iter(self.renames), dict[TableId, TableId]()
        for name, table in self.operations:
            yield name, first.get(table, table)
            if name == "rename.table":
                first[next(renames)[1]] = first.pop(table, table)


class Replay:
    """Applies entries in order. An entry of the same batch as the previous one replaces it."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[Any, Any]] = {name: {} for name in _READ}
        self._routes: Json | None = None
        self._last: int | None = None
        self._undo: list[Callable[[], None]] = []
        self._views: TableViews | None = TableViews()

    def views(self) -> TableViews:
        """The tables after the entries applied so far."""
        if self._views is None:
            self._views = TableViews(**{name: dict(known) for name, known in self._maps.items()}, routes=self._routes)
        return self._views

    def apply(self, entry: Json) -> None:
        """Apply the next entry."""
        changed = {name: read(entry) for name, read in _READ.items()}
        if entry["batch"] == self._last:
            for step in reversed(self._undo):
                step()
        self._undo, self._last, self._views = [], entry["batch"], None
        for name, values in changed.items():
            for key, value in values.items():
                self._set(self._maps[name], key, value)
        if "routes" in entry:
            before = self._routes
            self._undo.append(lambda: setattr(self, "_routes", before))
            self._routes = entry["routes"]

    def _set(self, known: dict[Any, Any], key: Any, value: Any) -> None:
        before = known.get(key)

        def undo() -> None:
            _set_or_remove(known, key, before)

        self._undo.append(undo)
        _set_or_remove(known, key, value)


def _set_or_remove(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def delta(before: TableViews, after: TableViews) -> dict[str, Any]:
    """The JSON of the difference between two views: changed values by key, null for removed ones.

    Source tables that the rules do not change have no value under `rules`.
    """
    source = _changed(before.source, after.source, _schema_to_json)
    rules = [
        table
        for table in {**source, **_changed(before.rules, after.rules, _schema_to_json)}
        if table not in source or _schema_to_json(after.rules.get(table)) != _schema_to_json(after.source.get(table))
    ]
    found: dict[str, Any] = {
        "source": {_key(table): _schema_to_json(after.source.get(table)) for table in source},
        "rules": {_key(table): _schema_to_json(after.rules.get(table)) for table in rules},
        "sink": {
            _key(table): _schema_to_json(after.sink.get(table))
            for table in _changed(before.sink, after.sink, _schema_to_json)
        },
        "pairs": [
            [table_to_json(source), table_to_json(sink), _to_json(after.pairs.get((source, sink)))]
            for source, sink in sorted(_changed(before.pairs, after.pairs))
        ],
        "sinks": {
            _key(table): _to_json(after.sinks.get(table)) for table in _changed(before.sinks, after.sinks, _to_json)
        },
        "rule_texts": {
            _key(table): after.rule_texts.get(table) for table in _changed(before.rule_texts, after.rule_texts)
        },
    }
    if after.routes != before.routes:
        found["routes"] = after.routes
    return {name: value for name, value in found.items() if value or name == "routes"}


def _changed(
    before: Mapping[Any, Any], after: Mapping[Any, Any], to_json: Callable[[Any], Any] = lambda value: value
) -> dict[Any, None]:
    """The keys whose values differ as JSON: equal schemas may differ in the source's own types."""
    pairs = ((key, before.get(key), after.get(key)) for key in {**before, **after})
    return dict.fromkeys(key for key, old, new in pairs if old is not new and to_json(old) != to_json(new))


def _key(table: TableId) -> str:
    """A table's name as a JSON key: that of `table_to_json`, an object as JSON text."""
    name = table_to_json(table)
    return name if isinstance(name, str) and not name.startswith("{") else json.dumps(_as_object(table))


def _as_object(table: TableId) -> Json:
    return {"database": table.database, "table": table.table}


def _table_of(key: str) -> TableId:
    return table_from_json(json.loads(key) if key.startswith("{") else key)


def _schema_to_json(schema: TableSchema | None) -> Json | None:
    return None if schema is None else schema_to_json(schema)


def _schemas(fields: Json) -> dict[TableId, TableSchema | None]:
    return {_table_of(key): None if value is None else schema_from_json(value) for key, value in fields.items()}


def _objects(fields: Json) -> dict[TableId, Json | None]:
    return {_table_of(key): _object(value) for key, value in fields.items()}


def _to_json(state: PairState | SinkState | None) -> Json | None:
    return None if state is None else state.to_json()


def _object(value: Any) -> Json | None:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"an object is wanted, got {value!r}")
    return value


def sink_of(entry: Json) -> dict[TableId, TableSchema | None]:
    """The sink tables whose schema an entry changes, None for removed ones."""
    return _schemas(entry.get("sink", _NONE))


def _rules_of(entry: Json) -> dict[TableId, TableSchema | None]:
    """The schemas after the rules; those of the source where the rules change nothing."""
    return {**_schemas(entry.get("source", _NONE)), **_schemas(entry.get("rules", _NONE))}


def _pairs_of(entry: Json) -> dict[Pair, PairState | None]:
    return {
        (table_from_json(source), table_from_json(sink)): None if value is None else PairState.from_json(value)
        for source, sink, value in entry.get("pairs", ())
    }


def _sinks_of(entry: Json) -> dict[TableId, SinkState | None]:
    states = _objects(entry.get("sinks", _NONE))
    return {table: None if value is None else SinkState.from_json(value) for table, value in states.items()}


def try_of(entry: Json) -> Try:
    """The operations of an entry."""
    operations = tuple((str(name), table_from_json(table)) for name, table in entry.get("operations", ()))
    renames = tuple((table_from_json(table), table_from_json(new)) for table, new in entry.get("renames", ()))
    return Try(operations, entry.get("digest", ""), renames, sink_of(entry))


_READ: Mapping[str, Callable[[Json], Mapping[Any, Any]]] = {
    "source": lambda entry: _schemas(entry.get("source", _NONE)),
    "rules": _rules_of,
    "sink": sink_of,
    "pairs": _pairs_of,
    "sinks": _sinks_of,
    "rule_texts": lambda entry: _objects(entry.get("rule_texts", _NONE)),
}
"""Reads the changes of an entry to each part of `TableViews`; None for removed values."""
