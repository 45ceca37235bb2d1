"""Debezium's envelope, {"before", "after", "source", "op", "ts_ms"}, with and without Connect's schema around it.

With a schema every message begins with the same few kilobytes: they are compared, not read. Tombstones say nothing that
the delete before them has not said.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdc.schema import TableId
from connectors.kafka.formats import connect, convert
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import AFTER, BEFORE, DELETE, INSERT, Group, Images, Messages, Reading, Statement
from connectors.kafka.formats.scan import Cells, Scan, Texts, Tree, runs
from connectors.kafka.kernels import NULL, OBJECT, STRING

_ENVELOPE = Tree({
    "op": None, "before": None, "after": None, "ts_ms": None,
    "source": {"db": None, "schema": None, "table": None, "ts_ms": None},
    "ddl": None, "databaseName": None, "tableChanges": None, "status": None,
})  # fmt: skip
_WRAPPED = Tree({"schema": None, "payload": None})
_CREATE, _READ, _UPDATE, _DELETE, _TRUNCATE, _NOTE = b"crudtm"


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a Connect schema says: its number among those met, and the columns; no columns for other messages."""

    number: int
    fields: tuple[Field, ...] | None


_BARE = _Shape(0, None)


class DebeziumFormat:
    """Reads Debezium's messages. Learns the Connect schemas it meets."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, _Shape] = {}
        self._numbered: list[_Shape] = [_BARE]
        self._prefix = b""
        self._shape = _BARE

    def read(self, messages: Messages) -> Reading:
        """As in `Format`."""
        reading = Reading()
        numbers: list[int] = []
        payloads: list[bytes] = []
        shapes: list[int] = []
        for number, value in enumerate(messages.values):
            if value is None:
                continue
            try:
                payload, shape = self._unwrapped(value)
            except ValueError as error:
                reading.unreadable[number] = str(error)
                continue
            numbers.append(number)
            payloads.append(payload)
            shapes.append(shape.number)
        if payloads:
            scan = _ENVELOPE.scan(Texts.of(payloads))
            self._sort(messages, reading, scan, np.array(numbers), np.array(shapes))
        return reading

    def _unwrapped(self, value: bytes) -> tuple[bytes, _Shape]:
        """The envelope without the schema around it. Raises ValueError."""
        if self._prefix and value.startswith(self._prefix) and value[-1] == 125:
            return value[len(self._prefix) : -1], self._shape
        if b'"payload"' not in value:
            return value, _BARE
        found = _WRAPPED.scan(Texts.of([value]))
        payload, schema = found.cells("payload"), found.cells("schema")
        if found.faults[0] or payload.kinds[0] not in (OBJECT, NULL) or schema.kinds[0] not in (OBJECT, NULL):
            return value, _BARE
        if schema.kinds[0] == NULL:
            return payload.raw(0), _BARE
        prefix, behind = value[: payload.starts[0]], value[payload.stops[0] :]
        shape = self._shapes.get(prefix)
        if shape is None:
            shape = self._shapes[prefix] = self._learned(schema.raw(0))
        if behind == b"}" and schema.stops[0] <= payload.starts[0]:
            self._prefix, self._shape = prefix, shape
        return payload.raw(0), shape

    def _learned(self, schema: bytes) -> _Shape:
        rows = connect.row_schema(json.loads(schema))
        shape = _Shape(len(self._numbered), None if rows is None else connect.fields_of(rows))
        self._numbered.append(shape)
        return shape

    def _sort(self, messages: Messages, reading: Reading, scan: Scan, numbers: Any, shapes: Any) -> None:
        op = scan.cells("op")
        rows = (scan.faults == 0) & (op.kinds == STRING) & (scan.cells("source", "table").kinds == STRING)
        for place in np.flatnonzero(~rows):
            self._other(reading, scan, int(place), int(numbers[place]))
        places = np.flatnonzero(rows)
        if not len(places):
            return
        names = [scan.cells("source", name).take(places) for name in ("db", "schema", "table")]
        run = runs(*names)
        ops = scan.texts.data[op.starts]
        found: dict[tuple[TableId, int], list[Any]] = {}
        latest: dict[TableId, int] = {}
        done: list[tuple[TableId, int, list[Any]]] = []
        marks = run.astype(np.int64) * len(self._numbered) + shapes[places]
        bounds = np.flatnonzero(np.diff(marks, prepend=-1, append=-1))
        for first, last in itertools.pairwise(bounds):
            table, shape = _table(names, int(first)), int(shapes[places[first]])
            if latest.get(table) != shape or (table, shape) not in found:
                found[table, shape] = []
                done.append((table, shape, found[table, shape]))
                latest[table] = shape
            found[table, shape].append(places[first:last])
        for table, shape, parts in done:
            members = np.concatenate(parts)
            key = key_names(messages, numbers[members])
            images = _images(messages, reading, scan, members, numbers, ops[members], key)
            if len(images):
                reading.groups.append(Group(table, self._numbered[shape].fields, key, images))
        notes = int((ops[places] == _NOTE).sum())
        if notes:
            reading.count(f"logical-messages-left-out {messages.topic}", notes)

    def _other(self, reading: Reading, scan: Scan, place: int, number: int) -> None:
        """What has no rows: statements, transaction marks, heartbeats."""
        if scan.faults[place]:
            reading.unreadable[number] = f"no JSON object (byte {scan.faults[place] - 1 - scan.texts.begins[place]})"
        elif scan.cells("ddl").kinds[place] >= STRING:
            ddl, database = (
                convert.text(scan.cells(name).take([place]))[0].as_py() for name in ("ddl", "databaseName")
            )
            reading.statements.append(Statement(number, database or "", ddl))
        elif scan.cells("op").kinds[place] >= STRING:
            reading.unreadable[number] = "Debezium's source.table is missing"
        elif scan.cells("status").kinds[place] < STRING and scan.cells("ts_ms").kinds[place] <= NULL:
            reading.unreadable[number] = "neither a change nor a note of Debezium: it has no `op`"


def _table(names: Sequence[Cells], row: int) -> TableId:
    """The schema stands before the database, where there is one (PostgreSQL, SQL Server)."""
    database, schema, table = (
        convert.text(item.take([row]))[0].as_py() if item.kinds[row] >= STRING else "" for item in names
    )
    return TableId(schema or database, table)


def key_names(messages: Messages, numbers: Any) -> tuple[str, ...] | None:
    """The columns in the key of the first message that has one; empty without any, None when the key is no object."""
    for number in numbers.tolist():
        key = messages.keys[number]
        if key is not None:
            fields = _key_object(key)
            return None if fields is None else tuple(fields)
    return ()


def _key_object(key: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(key)
    except ValueError:
        return None
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    return found if isinstance(found, dict) else None


def _images(
    messages: Messages, reading: Reading, scan: Scan, members: Any, numbers: Any, ops: Any, key: tuple[str, ...] | None
) -> Images:
    """One image for an insert or delete, two for an update whose row before is known."""
    before, after = scan.cells("before").take(members), scan.cells("after").take(members)
    has_before, has_after = before.kinds == OBJECT, after.kinds == OBJECT
    writes = np.isin(ops, (_CREATE, _READ, _UPDATE))
    removes = ops == _DELETE
    bad = (writes & ~has_after) | ~(writes | removes | (ops == _NOTE))
    for place in np.flatnonzero(bad):
        op = chr(int(ops[place]))
        truncated = "a TRUNCATE (op t)" if ops[place] == _TRUNCATE else f"op {op!r} without a row"
        reading.unreadable[int(numbers[members[place]])] = f"{truncated} is not carried out"
    texts = scan.texts
    keyed = removes & ~has_before
    if keyed.any():
        texts, before = _rows_of_keys(messages, reading, texts, before, np.flatnonzero(keyed), numbers[members], key)
        has_before = before.kinds == OBJECT
    two = (ops == _UPDATE) & has_before & ~bad
    one = ~bad & (ops != _NOTE) & (~removes | has_before)
    repeats = np.where(one, 1 + two, 0)
    source = np.repeat(np.arange(len(members)), repeats)
    places = np.arange(len(source)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    old = removes[source] | (two[source] & (places == 0))
    cells = Cells.either(old, before.take(source), after.take(source))
    kinds = np.select(
        [removes[source], two[source] & (places == 0), ops[source] == _UPDATE], [DELETE, BEFORE, AFTER], INSERT
    ).astype(np.uint8)
    times = _times(messages, scan, members, numbers)
    return Images(texts.part(cells.starts, cells.stops), None, numbers[members][source], places, kinds, times[source])


def _rows_of_keys(
    messages: Messages, reading: Reading, texts: Texts, before: Cells, rows: Any, numbers: Any, key: Any
) -> tuple[Texts, Cells]:
    """Deletes without the row before: the message's key names the row, behind the other texts in a new buffer."""
    starts, stops, kinds = before.starts.copy(), before.stops.copy(), before.kinds.copy()
    parts, end = [texts.data.tobytes()[:-8]], len(texts.data) - 8
    for row in rows:
        found = None if not key else _key_object(messages.keys[numbers[row]] or b"null")
        if found is None:
            reading.unreadable[int(numbers[row])] = "a delete with neither the row before nor a key to find it by"
            continue
        text = json.dumps(found).encode("utf-8")
        starts[row], stops[row], kinds[row] = end, end + len(text), OBJECT
        parts.append(text)
        end += len(text)
    data = np.frombuffer(b"".join((*parts, bytes(8))), np.uint8)
    wider = Texts(data, texts.begins, texts.ends)
    return wider, Cells(wider, starts, stops, kinds)


def _times(messages: Messages, scan: Scan, members: Any, numbers: Any) -> Any:
    """When the source committed, else when the message was written."""
    cells = scan.cells("source", "ts_ms").take(members)
    try:
        found = convert.integers(cells)
    except convert.BadValue:
        found = None
    written = np.array([messages.times_ms[number] for number in numbers[members]], np.int64)
    if found is None:
        return written
    return np.where(convert.nulls(cells), written, found.fill_null(0).to_numpy())
