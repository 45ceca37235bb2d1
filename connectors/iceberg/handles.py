"""Convert data files for the way from a task to the commit: the library's `DataFile` records to JSON, and back.

The values of partitions and bounds are in the format's single-value serialization, encoded as base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True)
class Flush:
    """One flush of a task: its data files, and the file with the keys of all its changes.

    Attributes:
        files: the library's `DataFile` records.
        keys: an Arrow IPC file with the key columns in the table's order, `file` (int32: the number of the row's file
            in `files`, -1 for a delete) and `pos` (int64: the row's position in that file). Empty for a table without
            a key, and when there is a `keys_path`.
        keys_path: the path of that file in the lake, when it is too large for a handle.
    """

    files: tuple[Any, ...]
    keys: bytes = b""
    keys_path: str = ""


def pack_flushes(table: Any, flushes: Sequence[Flush]) -> bytes:
    """The payload with the flushes of one table in one task. `table` is the library's."""
    return json.dumps([
        {
            "keys": base64.b64encode(flush.keys).decode(), "keys_path": flush.keys_path,
            "files": [_to_json(table, file) for file in flush.files],
        }
        for flush in flushes
    ]).encode()  # fmt: skip


def unpack_flushes(table: Any, payload: bytes) -> list[Flush]:
    """The flushes in a payload that `pack_flushes` made."""
    items = json.loads(payload)
    return [
        Flush(
            tuple(_from_json(table, file) for file in item["files"]), base64.b64decode(item["keys"]), item["keys_path"]
        )
        for item in items
    ]  # fmt: skip


def _to_json(table: Any, file: Any) -> dict[str, Any]:
    pairs = zip(_types(table, file.spec_id), _values(file), strict=True)
    fields: dict[str, Any] = {
        "path": file.file_path, "rows": file.record_count, "bytes": file.file_size_in_bytes, "spec": file.spec_id,
        "partition": [_text(kind, value) for kind, value in pairs], "split_offsets": file.split_offsets,
    }  # fmt: skip
    fields |= {name: getattr(file, name) for name in _MAPS}
    for name in _BOUNDS:
        fields[name] = {key: base64.b64encode(value).decode() for key, value in (getattr(file, name) or {}).items()}
    return fields


def _from_json(table: Any, fields: Mapping[str, Any]) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    pairs = zip(_types(table, fields["spec"]), fields["partition"], strict=True)
    maps = {name: {int(key): value for key, value in (fields[name] or {}).items()} for name in _MAPS}
    bounds = {name: {int(key): base64.b64decode(text) for key, text in fields[name].items()} for name in _BOUNDS}
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=fields["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(*(_value(kind, text) for kind, text in pairs)),
        record_count=fields["rows"],
        file_size_in_bytes=fields["bytes"],
        split_offsets=fields["split_offsets"],
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **maps,
        **bounds,
    )
    data_file.spec_id = fields["spec"]
    return data_file


def _types(table: Any, spec_id: int) -> list[Any]:
    spec = table.specs()[spec_id]
    return [field.field_type for field in spec.partition_type(table.schema()).fields]


def _values(file: Any) -> list[Any]:
    return [file.partition[index] for index in range(len(file.partition))]


def _text(kind: Any, value: Any) -> str | None:
    from pyiceberg.conversions import to_bytes

    return None if value is None else base64.b64encode(to_bytes(kind, value)).decode()


def _value(kind: Any, text: str | None) -> Any:
    from pyiceberg.conversions import from_bytes

    return None if text is None else from_bytes(kind, base64.b64decode(text))
