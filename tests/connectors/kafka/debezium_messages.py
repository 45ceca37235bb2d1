"""Debezium's messages, written from our own understanding of them: envelopes, with and without Connect's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

INT64 = {"type": "int64"}
TEXT = {"type": "string"}


def logical(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    """A field's type with a name and parameters; underscores in parameters stand for dots."""
    about = {key.replace("_", "."): value for key, value in parameters.items()}
    return {"type": kind, "name": name, "version": 1, **({"parameters": about} if about else {})}


def struct(fields: Mapping[str, Mapping[str, Any]], required: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Fields of a struct in Connect's schema."""
    return [{**about, "optional": name not in required, "field": name} for name, about in fields.items()]


def envelope(
    op: str, before: Row | None, after: Row | None, *, table: str = "shop.orders", ts_ms: int = 1_700_000_000_000
) -> dict[str, Any]:
    """The envelope of one change."""
    database, _, name = table.partition(".")
    source = {
        "version": "3.6.1.Final", "connector": "mysql", "name": "srv", "ts_ms": ts_ms, "snapshot": "false",
        "db": database, "table": name, "server_id": 1, "gtid": None, "file": "binlog.000001", "pos": 154, "row": 0,
    }  # fmt: skip
    return {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": ts_ms + 1}


def text(value: object) -> bytes:
    """JSON as Connect's converter writes it: without spaces, characters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def with_schema(fields: Mapping[str, Mapping[str, Any]], payload: object, required: Sequence[str] = ()) -> bytes:
    """A value with the schema of its rows around it."""
    rows = {"type": "struct", "fields": struct(fields, required), "optional": True, "name": "srv.Value"}
    schema = {
        "type": "struct", "optional": False, "name": "srv.Envelope",
        "fields": [
            {**rows, "field": "before"}, {**rows, "field": "after"},
            {"type": "string", "optional": False, "field": "op"},
        ],
    }  # fmt: skip
    return text({"schema": schema, "payload": payload})


def key_with_schema(fields: Mapping[str, Mapping[str, Any]], payload: Row) -> bytes:
    """A key with its schema around it."""
    schema = {"type": "struct", "fields": struct(fields, tuple(fields)), "optional": False, "name": "srv.Key"}
    return text({"schema": schema, "payload": payload})
