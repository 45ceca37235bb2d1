"""Keep documents that the server refuses as dead letters of their batch (`sink.invalid-values: dead-letter`).

    <sink.dead-letter.path>/<pipeline id>/shop.orders/batch-7.jsonl

When a batch is sent again after a crash, the server refuses the same documents and the same files are written again; a
file of the earlier attempt whose documents are all stored by now is removed. So a file has each row that its batch left
out once. A refused update leaves the stored document as it is. Runs in the driver.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from cdc.dead_letters import DeadLetter, DeadLetters, Rejected
from cdc.schema import Kind, TableId
from cdc.sink import Prepared
from cdc.types.kinds import BLOBS
from connectors.elasticsearch.bodies import BulkBodies
from connectors.elasticsearch.bulk import RefusedDocument
from connectors.elasticsearch.index import Index

COUNTED = "refused-dead-letter"
"""Beginning of the name of a count: rows that the server refused, of the table whose name follows."""

_FIELD = re.compile(r'fields? ?=?[\["]([^"\]]+)["\]]')
_LONGEST_REASON = 2_000


class BatchDeadLetters:
    """The dead letters of one batch; `counts` has their numbers by `COUNTED` and table."""

    def __init__(self, index: Callable[[TableId], Index], open_file: Callable[[TableId], DeadLetters]) -> None:
        self._index, self._open = index, open_file
        self._files: dict[TableId, DeadLetters] = {}
        self.counts: Counter[str] = Counter()

    @contextmanager
    def of(self, tables: Sequence[TableId], *, again: bool) -> Iterator[None]:
        """Keep the letters of these tables within the block; its end publishes their files, unless it ends in an error.

        `again`: the batch may have been sent before, so files of that attempt may exist. Raises SinkError.
        """
        with ExitStack() as files:
            self._files = {table: files.enter_context(self._open(table)) for table in dict.fromkeys(tables)}
            yield
            for file in self._files.values():
                if again and not file.written:
                    file.withdraw()

    def write(self, handle: Prepared, flush: BulkBodies, refused: Sequence[Sequence[RefusedDocument]]) -> None:
        """Write the refused documents of a flush, body by body. Raises SinkError."""
        if not any(refused):
            return
        index, file = self._index(handle.table), self._files[handle.table]
        for positions, found in zip(flush.positions, refused, strict=True):
            position_lines = positions.decode().split("\n")
            file.write(_letter(index, each, position_lines[each.number] if positions else "") for each in found)
            self.counts[f"{COUNTED} {index.table}"] += len(found)


def _letter(index: Index, refused: RefusedDocument, position: str) -> DeadLetter:
    action, _, document = refused.item.partition(b"\n")
    if not document:
        raise AssertionError(f"a delete was refused: {action!r}")
    types = {column.name: column.type.kind for column in index.schema.columns}
    row = {name: _value(value, types.get(name)) for name, value in json.loads(document).items()}
    match = _FIELD.search(refused.reason)
    name = match[1].partition(".")[0] if match else ""
    field = index.fields.get(name, {}).get("type", "object") if name in index.fields else ""
    return DeadLetter(
        table=str(index.table),
        position=position,
        operation="upsert",
        key={name: row.get(name) for name in index.schema.primary_key},
        rejected=(Rejected(name if field else "", field, refused.reason[:_LONGEST_REASON]),),
        row=row,
    )


def _value(value: Any, kind: Kind | None) -> object:
    """The value of the row for a value of its document."""
    if kind is Kind.JSON and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return base64.b64decode(value) if kind in BLOBS and isinstance(value, str) else value
