"""Read Debezium's envelope, {"before", "after", "source", "op", "ts_ms"}, with or without Connect's schema around it.

With a schema, every message begins with the same few kilobytes, which are compared instead of parsed. A tombstone after
the delete of its key adds nothing; a lone one, as compaction leaves it, deletes the row of its key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdc.schema import Column, TableId, TruncateTable
from connectors.kafka.formats import connect, convert
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    DdlMessage,
    MessageImages,
    Messages,
    Reading,
    TableGroup,
    repeated,
    rows_by_table,
    times_of,
)
from connectors.kafka.formats.log_positions import NOWHERE, POSITIONS, LogPositions, log_positions_of
from connectors.kafka.formats.modes import DecodingModes
from connectors.kafka.formats.scan import Cells, Scan, Texts, Tree, runs
from connectors.kafka.formats.schema_changes import schema_change, table_changes, unsigned_columns
from connectors.kafka.formats.wrapped import Opener, Unwrapper, WrappedPayloads, by_key, key_columns, key_object
from connectors.kafka.kernels import NULL, OBJECT, STRING

_ENVELOPE = Tree({
    "op": None, "before": None, "after": None, "ts_ms": None,
    "source": {"db": None, "schema": None, "table": None, "keyspace": None, "ts_ms": None,
               "value_capture_type": None},
    "ddl": None, "databaseName": None, "tableChanges": None, "status": None,
})  # fmt: skip
_OPS = Tree({"op": None})
_CREATE, _READ, _UPDATE, _DELETE, _TRUNCATE, _NOTE = b"crudtm"
_NO_OP = "neither a change nor a note of Debezium: it has no `op` (rows without an envelope are value.format: json)"
_NO_TABLE = "source.table is missing, which Debezium writes and Flink's format of that name does not"
_DOCUMENT = (
    "a document of MongoDB has no columns (have `ExtractNewDocumentState` make rows, with "
    "delete.tombstone.handling.mode: rewrite, and read them as value.format: json with primary-keys: {topic: [_id]})"
)
_CELLS = (
    "its values are {value, set}, as YugabyteDB and Cassandra write them: a column that a change leaves alone is NULL "
    "there (have it write whole rows, and their values alone: REPLICA IDENTITY FULL and `YBExtractNewRecordState`)"
)
_VALUES = (b"OLD_AND_NEW_VALUES", b"NEW_VALUES")
_CHANGED = (
    "an update of Spanner with the columns that changed alone (give the change stream value_capture_type NEW_ROW, or "
    "NEW_ROW_AND_OLD_VALUES)"
)


class DebeziumFormat:
    """Reads Debezium's messages. Remembers the Connect schemas that it meets."""

    def __init__(self, modes: DecodingModes | None = None, wrapped: Opener | None = None) -> None:
        self._modes = modes or DecodingModes()
        self._wrapped = wrapped or Unwrapper(row_fields)

    def read(self, messages: Messages, table: TableId | None = None) -> Reading:
        """Read messages, as in `Format`."""
        reading, original = Reading(), messages
        messages, found = self._wrapped.unwrap(messages)
        reading.unreadable.update(found.unreadable)
        lone = _lone_tombstones(messages, found)
        if len(lone) and table is None:
            reading.count(f"tombstones-left-out {messages.topic}", len(lone))
        elif len(lone) and table is not None:
            shapes = [self._wrapped.shape_of_key(original.key(number)) for number in lone.tolist()]
            text = json.dumps({"op": "d", "source": {"schema": table.database, "table": table.table}}).encode()
            found = found.with_added(lone.tolist(), [text] * len(lone), shapes)
        if len(found.texts):
            self._sort(messages, reading, _ENVELOPE.scan(found.texts), found.numbers, found.shapes)
        return reading

    def natural(self, column: Column) -> Field:
        """The field of a column that messages do not describe, as in `Format`; depends on the connector's modes."""
        return self._modes.natural(column)

    def log_positions(self, messages: Messages) -> LogPositions:
        """The positions of the messages in the server's log."""
        _, payloads = self._wrapped.unwrap(messages)
        found = log_positions_of(POSITIONS.scan(payloads.texts))
        at = np.full(len(messages), NOWHERE, np.int64)
        at[payloads.numbers] = found.at
        return LogPositions(at, found.logs, found.servers)

    def _sort(self, messages: Messages, reading: Reading, scan: Scan, numbers: Any, shapes: Any) -> None:
        op = scan.cells("op")
        rows = (scan.faults == 0) & (op.kinds == STRING) & (scan.cells("source", "table").kinds >= STRING)
        rows[rows] = scan.texts.data[op.starts[rows]] != _NOTE
        for row in np.flatnonzero(~rows):
            self._read_other(reading, scan, int(row), int(numbers[row]), messages.topic)
        row_numbers = np.flatnonzero(rows)
        if not len(row_numbers):
            return
        names = [scan.cells("source", name).take(row_numbers) for name in ("db", "schema", "table", "keyspace")]
        run = runs(*names)
        ops = scan.texts.data[op.starts]
        marks = run.astype(np.int64) * len(self._wrapped.shapes) + shapes[row_numbers]
        databases: dict[TableId, str] = {}

        def describe(row: int) -> tuple[TableId, tuple[int, str | None]]:
            table, database = _table(names, row)
            if database is not None:
                databases[table] = database
            return table, (int(shapes[row_numbers[row]]), databases.get(table))

        for table, (shape, database), rows_of_table in rows_by_table(reading, numbers, row_numbers, marks, describe):
            rows_of_table = rows_of_table[~_partial_updates(reading, scan, rows_of_table, numbers, ops[rows_of_table])]
            for members in by_key(messages, numbers, rows_of_table):
                key = key_names(messages, numbers[members], table)
                reading.statements += [
                    DdlMessage(int(number), table.database, f"TRUNCATE TABLE {table}", (TruncateTable(table),))
                    for number in numbers[members[ops[members] == _TRUNCATE]]
                ]
                images = _images(messages, reading, scan, members, numbers, ops[members], key, table)
                if len(images):
                    fields = self._wrapped.shapes[shape].fields
                    reading.groups.append(TableGroup(table, fields, key, images, database=database))
        reading.statements.sort(key=lambda statement: statement.message)

    def _read_other(self, reading: Reading, scan: Scan, row: int, number: int, topic: str) -> None:
        """Read a message without rows: a statement, a transaction mark, or a heartbeat."""
        if scan.faults[row]:
            reading.unreadable[number] = scan.fault(row)
        elif scan.cells("ddl").kinds[row] >= STRING:
            try:
                tables = table_changes(scan, row)
                reading.statements += schema_change(scan, row, number, tables)
                reading.unsigned |= unsigned_columns(tables)
            except convert.BadValue as error:
                reading.unreadable[number] = str(error)
        elif scan.cells("op").raw(row) == b"m":
            reading.count(f"logical-messages-left-out {topic}", 1)
        elif scan.cells("op").kinds[row] >= STRING:
            document = b'"collection"' in scan.cells("source").raw(row)
            reading.unreadable[number] = _DOCUMENT if document else _NO_TABLE
        elif scan.cells("status").kinds[row] < STRING and scan.cells("ts_ms").kinds[row] <= NULL:
            reading.unreadable[number] = _NO_OP


def _lone_tombstones(messages: Messages, rows: WrappedPayloads) -> Any:
    """The numbers of the tombstones without the delete of their key before them, which compaction removed.

    `rows` are the values that exist.
    """
    tombstones = np.flatnonzero(~messages.values.present & messages.keys.present)
    if not len(tombstones) or not len(rows.numbers):
        return tombstones
    indices = np.minimum(np.searchsorted(rows.numbers, tombstones - 1), len(rows.numbers) - 1)
    follows_row = rows.numbers[indices] == tombstones - 1
    texts = rows.texts.part(rows.texts.begins[indices[follows_row]], rows.texts.ends[indices[follows_row]])
    op = _OPS.scan(texts).cells("op")
    follows_row[follows_row] = (op.kinds == STRING) & (texts.data[op.starts] == _DELETE)
    delivered = [
        number for number in tombstones[follows_row].tolist() if messages.key(number) == messages.key(number - 1)
    ]
    return np.setdiff1d(tombstones, delivered, assume_unique=True)


def row_fields(schema: Mapping[str, Any]) -> tuple[Field, ...] | None:
    """The fields of the rows in an envelope with this Connect schema; None when it has none. Raises ValueError."""
    rows = connect.row_schema(schema)
    return None if rows is None else connect.fields_of(rows, by_flink=connect.is_by_flink(schema))


def _partial_updates(reading: Reading, scan: Scan, row_numbers: Any, numbers: Any, ops: Any) -> Any:
    """The messages (bool[n]) that cannot be read, because columns that the update did not change are NULL in them."""
    after, captured = scan.cells("after"), scan.cells("source", "value_capture_type")
    found = (ops == _UPDATE) & (captured.kinds[row_numbers] == STRING)
    found[found] = [captured.raw(int(row)) in _VALUES for row in row_numbers[found]]
    reason = _CHANGED
    rows = row_numbers[after.kinds[row_numbers] == OBJECT]
    if len(rows) and _are_cells(after.raw(int(rows[0]))):
        found[:], reason = True, _CELLS
    reading.unreadable.update(dict.fromkeys(numbers[row_numbers[found]].tolist(), reason))
    return found


def _are_cells(row: bytes) -> bool:
    """Whether the values of a row are in objects that tell whether they were set."""
    try:
        values = json.loads(row).values()
    except (ValueError, RecursionError):
        return False
    return any(isinstance(value, dict) and {"value", "set"} <= value.keys() for value in values)


def _table(names: Sequence[Cells], row: int) -> tuple[TableId, str | None]:
    """The table, and the database that contains the table's schema. Raises ValueError.

    The database is empty for servers without schemas, such as MySQL, and None for messages that do not tell it, such as
    tombstones. A schema (PostgreSQL, SQL Server) or a keyspace (Vitess, whose databases have no name) takes the place
    of the database in the table's name.
    """
    schema, keyspace = (
        convert.name_of(names[position], row, field, needed=False)
        for position, field in ((1, "schema"), (3, "keyspace"))
    )
    database = keyspace or convert.name_of(names[0], row, "database", needed=False)
    table = convert.name_of(names[2], row, "table")
    return TableId(schema or database, table), (database or None) if schema else ""


def key_names(messages: Messages, numbers: Any, table: TableId) -> tuple[str, ...] | None:
    """The columns in the key of the first message with one; empty when none has, None when the key is not an object."""
    present = messages.keys.present[numbers]
    if not present.any():
        return ()
    fields = key_object(messages.key(int(numbers[np.argmax(present)])))
    return None if fields is None else tuple(key_columns(fields, table))


def _images(
    messages: Messages,
    reading: Reading,
    scan: Scan,
    members: Any,
    numbers: Any,
    ops: Any,
    key: tuple[str, ...] | None,
    table: TableId,
) -> MessageImages:
    """The row images: one for an insert or delete, two for an update with a row before."""
    before, after = scan.cells("before").take(members), scan.cells("after").take(members)
    has_before, has_after = before.kinds == OBJECT, after.kinds == OBJECT
    writes = np.isin(ops, (_CREATE, _READ, _UPDATE))
    removes = ops == _DELETE
    rowless = ops == _TRUNCATE
    bad = (writes & ~has_after) | ~(writes | removes | rowless)
    for row in np.flatnonzero(bad):
        op = chr(int(ops[row]))
        reading.unreadable[int(numbers[members[row]])] = f"op {op!r} without a row is not applied"
    texts = scan.texts
    keyed = removes & ~has_before
    if keyed.any():
        texts, before = _rows_of_keys(
            messages, reading, texts, before, np.flatnonzero(keyed), numbers[members], key, table
        )
        has_before = before.kinds == OBJECT
    two = (ops == _UPDATE) & has_before & ~bad
    one = ~bad & ~rowless & (~removes | has_before)
    source, row_numbers = repeated(np.where(one, 1 + two, 0))
    old = removes[source] | (two[source] & (row_numbers == 0))
    cells = Cells.either(old, before.take(source), after.take(source))
    kinds = np.select(
        [removes[source], two[source] & (row_numbers == 0), ops[source] == _UPDATE], [DELETE, BEFORE, AFTER], INSERT
    ).astype(np.uint8)
    times = _times(messages, scan, members, numbers)
    return MessageImages(
        texts.part(cells.starts, cells.stops), None, numbers[members][source], row_numbers, kinds, times[source]
    )


def _rows_of_keys(
    messages: Messages, reading: Reading, texts: Texts, before: Cells, rows: Any, numbers: Any, key: Any, table: TableId
) -> tuple[Texts, Cells]:
    """For deletes without the row before, use the message's key as the row, in a new buffer after the other texts."""
    starts, stops, kinds = before.starts.copy(), before.stops.copy(), before.kinds.copy()
    parts: list[bytes] = []
    end = len(texts.data)
    for row in rows:
        found = None if not key else key_object(messages.key(int(numbers[row])))
        if found is None:
            reading.unreadable[int(numbers[row])] = "a delete with neither the row before nor a key to find it by"
            continue
        text = json.dumps(key_columns(found, table)).encode("utf-8")
        starts[row], stops[row], kinds[row] = end, end + len(text), OBJECT
        parts.append(text)
        end += len(text)
    wider = texts.with_more(parts)
    return wider, Cells(wider, starts, stops, kinds)


def _times(messages: Messages, scan: Scan, members: Any, numbers: Any) -> Any:
    """The times at which the source committed; otherwise those at which the messages were written."""
    cells = scan.cells("source", "ts_ms").take(members)
    try:
        found = convert.integers(cells)
    except convert.BadValue:
        found = None
    return times_of(messages, numbers[members], found)
