"""Decoded blocks in a file: each as an Arrow stream of one record batch, then an index of them.

A complete file ends with the index and its length. Readers map it into memory and copy nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.schema import TableId, TableSchema
from cdc.schema_json import schema_from_json, schema_to_json

_FIXED = ("kinds", "sequence", "row", "timestamps_ms")
_LENGTH_BYTES = 8


class BlocksTooLarge(Exception):
    """The blocks exceed the maximum size of the file."""


def write_blocks(
    path: Path, blocks: Iterable[ChangeBlock], metadata: Sequence[str], counts: Counter[str], most_bytes: int
) -> None:
    """Write the blocks, with these metadata columns, and the final counts.

    Raises BlocksTooLarge, and OSError if the file cannot be written.
    """
    tables: dict[TableId, int] = {}
    schemas: list[tuple[TableId, TableSchema]] = []
    index: list[tuple[int, int]] = []
    with pa.OSFile(str(path), "wb") as file:
        for block in blocks:
            number = tables.get(block.table)
            if number is None or schemas[number][1] != block.schema:
                number = tables[block.table] = len(schemas)
                schemas.append((block.table, block.schema))
            index.append((number, file.tell()))
            batch = _batch(block, metadata)
            with pa.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
            if file.tell() > most_bytes:
                raise BlocksTooLarge
        header = {
            "schemas": [[table.database, table.table, schema_to_json(schema)] for table, schema in schemas],
            "blocks": index, "metadata": list(metadata), "counts": dict(counts),
        }  # fmt: skip
        text = json.dumps(header).encode("utf-8")
        file.write(text + len(text).to_bytes(_LENGTH_BYTES, "little"))


def _batch(block: ChangeBlock, metadata: Sequence[str]) -> pa.RecordBatch:
    added = [getattr(block, name) for name in _FIXED]
    if metadata and block.metadata is not None:
        added += [block.metadata(name, block.sequence) for name in metadata]
    fields = [*block.rows.schema, *(pa.field(str(number), array.type) for number, array in enumerate(added))]
    return pa.RecordBatch.from_arrays([*block.rows.columns, *added], schema=pa.schema(fields))


class BlocksFile:
    """A file that `write_blocks` has completed. Raises OSError and ValueError for a missing or incomplete one.

    `counts` are those counted while the blocks were made. The file may be removed once the object exists.
    """

    def __init__(self, path: Path) -> None:
        self._map = pa.memory_map(str(path), "r")
        size = self._map.size()
        self._map.seek(max(0, size - _LENGTH_BYTES))
        length = int.from_bytes(self._map.read(_LENGTH_BYTES), "little")
        if not 0 < length <= size - _LENGTH_BYTES:
            raise ValueError(f"{path} is not whole")
        self._map.seek(size - _LENGTH_BYTES - length)
        header: Mapping[str, Any] = json.loads(self._map.read(length))
        self.counts: Mapping[str, int] = header["counts"]
        self._index, self._metadata = header["blocks"], header["metadata"]
        self._schemas = [
            (TableId(database, table), schema_from_json(schema)) for database, table, schema in header["schemas"]
        ]

    def blocks(self) -> Iterator[ChangeBlock]:
        """Yield the blocks as written. Their memory is that of the file."""
        for number, at in self._index:
            self._map.seek(at)
            batch = pa.ipc.open_stream(self._map).read_next_batch()
            table, schema = self._schemas[number]
            width = len(schema.columns)
            fields = pa.schema([batch.schema.field(place) for place in range(width)])
            rows = pa.RecordBatch.from_arrays(batch.columns[:width], schema=fields)
            kinds, sequence, row, timestamps = batch.columns[width : width + len(_FIXED)]
            more = batch.columns[width + len(_FIXED) :]
            metadata = _BlockMetadata(sequence, dict(zip(self._metadata, more, strict=True))).column if more else None
            yield ChangeBlock(table, schema, rows, kinds, sequence, row, timestamps, metadata=metadata)


class _BlockMetadata:
    """The metadata of a block, for any of its rows: rows are looked up by sequence, as rows of one event share them."""

    def __init__(self, sequence: pa.Array, columns: Mapping[str, pa.Array]) -> None:
        self._sequence, self._columns = sequence, columns

    def column(self, name: str, sequence: pa.Array) -> pa.Array:
        places = np.searchsorted(self._sequence.to_numpy(), sequence.to_numpy())
        return self._columns[name].take(pa.array(places))
