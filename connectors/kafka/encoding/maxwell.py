"""Maxwell's messages: a row as an object, what an update changed in `old`, and the place in the log.

Of Maxwell's members those about the transaction (`xid`, `xoffset`, `commit`) are left out, as it leaves them out with
`output_commit_info=false`: a block does not say which row is the last of its transaction.
"""

from __future__ import annotations

from dataclasses import replace

from cdc.schema import TableId, TableSchema
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.natural import fields_of, prepared_of
from connectors.kafka.encoding.template import BEFORE, KEY, FieldEncoding, Part, RowPart, Shared, Value, json_text

_SECOND_MS = 1000


def layout(table: TableId, schema: TableSchema) -> MessageLayout:
    """How messages of a table are written. Executor; once per table and schema."""
    fields = fields_of(schema)
    by_name = {field.name: field for field in fields}
    keys = tuple(by_name[name] for name in schema.primary_key)
    where = b'"database":' + json_text(table.database) + b',"table":' + json_text(table.table)
    value: tuple[Part, ...] = (
        b"{", where, b',"type":', Value(FieldEncoding("maxwell_type", values.TEXT, quoted=True, room=2)),
        Shared((
            b',"ts":', Value(FieldEncoding("ts_ms", values.DIVIDED, _SECOND_MS)),
            b',"position":"', Value(FieldEncoding("file", values.TEXT)),
            b":", Value(FieldEncoding("begin", values.INT64)),
            b'","gtid":', Value(FieldEncoding("gtid", values.TEXT, quoted=True, room=2)),
            b',"server_id":', Value(FieldEncoding("server_id", values.INT64)),
        )),
        b',"primary_key_columns":', json_text(list(schema.primary_key)),
        b',"data":', RowPart(KEY, fields), RowPart(BEFORE, fields, messages.OLD), b"}",
    )  # fmt: skip
    named = tuple(replace(field, label=f"pk.{field.name}") for field in keys)
    key: tuple[Part, ...] = (b"{", where, b",", RowPart(KEY, named, messages.MEMBERS), b"}")
    return MessageLayout(value, key if keys else None, prepared_of(schema), tombstones=False)
