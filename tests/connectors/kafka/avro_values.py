"""Avro's binary encoding, written after its specification: what messages in tests are made of."""

from __future__ import annotations

import struct
from typing import Any


def number(value: int) -> bytes:
    """A number of variable length."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def named(schema: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The named types in a schema, by their names without and with the namespace they are written with."""
    for part in schema if isinstance(schema, list) else [schema]:
        if isinstance(part, dict):
            if "name" in part and "type" in part and part["type"] in ("record", "fixed", "enum"):
                found[part["name"]] = found[f"{part.get('namespace')}.{part['name']}"] = part
            for inner in ("type", "items", "values"):
                named(part.get(inner), found)
            named(part.get("fields", []), found)
    return found


def body(schema: Any, value: Any, types: dict[str, Any] | None = None) -> bytes:
    """A value of a schema; of a union, `value` is the branch's number and the value."""
    types = named(schema, {}) if types is None else types
    if isinstance(schema, list):
        return number(value[0]) + body(schema[value[0]], value[1], types)
    if isinstance(schema, str) and schema in types:
        schema = types[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return number(value)
        case "float" | "double":
            return struct.pack("<f" if kind == "float" else "<d", value)
        case "bytes" | "string":
            data = value.encode() if isinstance(value, str) else value
            return number(len(data)) + data
        case "fixed":
            return bytes(value)
        case "enum":
            return number(schema["symbols"].index(value))
        case "record":
            return b"".join(body(field["type"], value[field["name"]], types) for field in schema["fields"])
        case "array":
            items = b"".join(body(schema["items"], item, types) for item in value)
            return (number(len(value)) + items if value else b"") + number(0)
    items = b"".join(body("string", name) + body(schema["values"], item, types) for name, item in value.items())
    return (number(len(value)) + items if value else b"") + number(0)


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """A message in Confluent's wire format."""
    return struct.pack(">bI", 0, schema_id) + body(schema, value)
