"""Convert a registered Avro schema to a program for the kernel, and to the Connect schema behind it. Pure.

Connect's AvroConverter keeps what Avro cannot express in properties: `connect.name` (a logical type such as
`io.debezium.time.Date`), `connect.parameters`, `connect.type` (int8, int16). For producers without Connect, Avro's own
`logicalType` tells the type, as in that converter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connectors.kafka.avro.kernels import to_json

Schema = dict[str, Any]

_SCALARS = {
    "null": to_json.NULL, "boolean": to_json.BOOLEAN, "int": to_json.WHOLE, "long": to_json.WHOLE,
    "float": to_json.FLOAT, "double": to_json.DOUBLE, "bytes": to_json.BYTES, "string": to_json.TEXT,
}  # fmt: skip
_CONNECT = {"int": "int32", "long": "int64", "fixed": "bytes", "enum": "string", "record": "struct", "null": "string"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_LOGICAL = {
    "decimal": _DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
_NAMED = ("record", "error", "enum", "fixed")
_DEEP = 2
"""The greatest depth of a row's columns: within the row of an envelope."""
_PADDING = bytes(8)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A schema in the form that the kernel reads.

    Attributes:
        nodes, children, names: as in `kernels.to_json`.
        connect: the Connect schema.
    """

    nodes: Any
    children: Any
    names: Any
    connect: Schema


def program(text: str, references: Sequence[str] = (), rows: int = 1) -> Program:
    """The program of a schema. Raises ValueError for a text that is no Avro schema.

    Args:
        references: the schemas whose types it uses, each after those that it uses itself.
        rows: how many records deep the rows are; null members of rows, and of the records around them, are left out.
    """
    maker = _Maker()
    try:
        for other in references:
            maker.learn(json.loads(other), "")
        schema = json.loads(text)
        maker.learn(schema, "")
        maker.node(schema, "", rows)
        connect = maker.connect(schema, "", 0)
        nodes = np.array(maker.nodes, np.int64)
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no Avro schema: {type(error).__name__} {error}") from error
    names = np.frombuffer(b"".join([*maker.names, _PADDING]), np.uint8)
    return Program(nodes, np.array(maker.children or [(0, 0, 0)], np.int64), names, connect)


class _Maker:
    """Makes the nodes of one schema. Named types are looked up by name, and may refer to themselves."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int]] = []
        self.children: list[tuple[int, int, int]] = []
        self.names: list[bytes] = []
        self._size = 0
        self._types: dict[str, tuple[Schema, str]] = {}
        self._made: dict[tuple[str, int], int] = {}

    def learn(self, schema: Any, space: str) -> None:
        """Remember the named types in a schema; `space` is the namespace around it."""
        for part in schema if isinstance(schema, list) else [schema]:
            if not isinstance(part, dict):
                continue
            if part["type"] in _NAMED:
                name = _full_name(part["name"], part.get("namespace", space))
                self._types[name] = part, name.rpartition(".")[0]
                for field in part.get("fields", ()):
                    self.learn(field["type"], name.rpartition(".")[0])
            else:
                for inner in ("type", "items", "values"):
                    self.learn(part.get(inner), space)

    def node(self, schema: Any, space: str, rows: int) -> int:
        """The number of a schema's node."""
        if isinstance(schema, list):
            node_index = self._add(to_json.UNION)
            return self._with(node_index, to_json.UNION, [(self.node(part, space, rows), b"") for part in schema])
        found, space = self._resolved(schema, space)
        kind = found["type"]
        if kind in _SCALARS:
            return self._add(_SCALARS[kind])
        if kind in ("array", "map"):
            node_index, op = self._add(to_json.ARRAY), to_json.ARRAY if kind == "array" else to_json.MAP
            return self._with(
                node_index, op, [(self.node(found["items" if kind == "array" else "values"], space, 0), b"")]
            )
        key = _full_name(found["name"], space), rows
        if key not in self._made:
            node_index = self._made[key] = self._add(to_json.FIXED, int(found.get("size", 0)))
            if kind == "enum":
                self._with(node_index, to_json.ENUM, [(0, json.dumps(label).encode()) for label in found["symbols"]])
            elif kind != "fixed":
                op = to_json.ROW if rows > 0 else to_json.RECORD
                self._with(node_index, op, [self._member(field, space, rows - 1) for field in found["fields"]])
        return self._made[key]

    def _member(self, field: Schema, space: str, rows: int) -> tuple[int, bytes]:
        name = json.dumps(field["name"], ensure_ascii=False).encode()
        return self.node(field["type"], space, max(rows, 0)), name + b":"

    def _add(self, op: int, first: int = 0) -> int:
        self.nodes.append((op, first, 0))
        return len(self.nodes) - 1

    def _with(self, node_index: int, op: int, children: Sequence[tuple[int, bytes]]) -> int:
        """Set the children of a node."""
        self.nodes[node_index] = op, len(self.children), len(children)
        for node, name in children:
            self.children.append((node, self._size, len(name)))
            self.names.append(name)
            self._size += len(name)
        return node_index

    def _resolved(self, schema: Any, space: str) -> tuple[Schema, str]:
        """Look up a type by its name, or unwrap it: the schema, and the namespace inside it."""
        if isinstance(schema, str):
            if schema in _SCALARS:
                return {"type": schema}, space
            return self._types[schema if "." in schema or not space else f"{space}.{schema}"]
        kind = schema["type"]
        if kind in _NAMED:
            return schema, _full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
        if isinstance(kind, str) and (kind in _SCALARS or kind in ("array", "map")):
            return schema, space
        return self._resolved(kind, space)

    def connect(self, schema: Any, space: str, depth: int) -> Schema:
        """The Connect schema of a type. Structs in columns only keep their name, because their values are JSON."""
        optional = False
        if isinstance(schema, list):
            others = [part for part in schema if part != "null"]
            optional = len(others) < len(schema)
            if len(others) > 1:
                return {"type": "union of several types", "optional": optional}
            schema = others[0] if others else "null"
        found, space = self._resolved(schema, space)
        kind, logical = str(found["type"]), str(found.get("logicalType", ""))
        parameters = dict(found.get("connect.parameters") or {})
        name = found.get("connect.name") or _LOGICAL.get(logical)
        if kind == "record":
            name = name or _full_name(found["name"], space)
        if name == _DECIMAL:
            parameters.setdefault("scale", str(found.get("scale", 0)))
            if "precision" in found:
                parameters.setdefault("connect.decimal.precision", str(found["precision"]))
        made: Schema = {
            "type": found.get("connect.type") or _CONNECT.get(kind, kind), "optional": optional, "name": name,
            "parameters": parameters, "doc": found.get("connect.doc"),
        }  # fmt: skip
        if kind == "record" and depth < _DEEP:
            made["fields"] = [
                {**self.connect(field["type"], space, depth + 1), "field": field["name"]} for field in found["fields"]
            ]
        return made


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def schema_type(answer: Mapping[str, Any]) -> str:
    """The kind of schema in a registry's answer; AVRO when the answer does not say."""
    return str(answer.get("schemaType") or "AVRO")
