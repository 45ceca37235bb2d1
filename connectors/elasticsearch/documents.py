"""Convert rows to the text of bulk requests: an action line and a document line each. Pure; works column by column.

The id of a document is made of its row's key:

| key | id |
|---|---|
| one column | its text |
| several columns, and a text that is empty or begins with `[` | JSON array of the texts: `["a_b","c"]` |
| longer than 512 bytes | `sha256:` and the digest of the above |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import Kind, TableId, TableSchema
from cdc.types.text import Piece, concatenate, escaped, not_finite, plain
from connectors.elasticsearch.mapping import placing_columns, shard_suffix

LONGEST_ID = 512
"""The most bytes that the servers allow in an id."""

_ESCAPES = (
    ("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
    *((chr(code), f"\\u{code:04x}") for code in range(32) if chr(code) not in "\n\r\t"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DocumentTarget:
    """The place and form of a table's documents.

    Attributes:
        alias: the alias through which they are written.
        version: the version of all documents of this part of a batch.
        texts: numeric columns that documents have as text, because the server has no field type for them.
        objects: JSON columns whose value becomes part of the document; other JSON columns are texts.
        routing: the column whose text is the document's routing; empty for none. NULL and an empty text give no
            routing.
        sharding: the column that has an index for each of its texts, and the separator before the text in the names of
            those indexes; both empty for none.
        index: the index that the alias leads to.
        all_numbers: whether NaN and infinities are sent as texts, so that the server decides; otherwise they are
            errors.
    """

    table: TableId
    alias: str
    version: int
    texts: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    all_numbers: bool = False
    routing: str = ""
    sharding: tuple[str, str] = ("", "")
    index: str = ""

    @property
    def placing(self) -> tuple[str, ...]:
        """The columns besides the key that determine where a document is."""
        return placing_columns(self.routing, self.sharding)


def document_ids(rows: pa.RecordBatch, key: Sequence[str]) -> pa.Array:
    """The id of each row's document, as a string array."""
    names = [name.lower() for name in rows.schema.names]
    columns = [rows.column(names.index(name.lower())) for name in key]
    texts = [plain(values) for values in columns]
    if len(texts) == 1:
        ids = texts[0]
        odd = pc.or_(pc.equal(ids, ""), pc.or_(pc.starts_with(ids, "["), pc.starts_with(ids, "sha256:")))
        if pc.any(odd).as_py():
            ids = pc.if_else(odd, _arrays(texts), ids)
    else:
        ids = _arrays(texts)
    long = pc.greater(pc.binary_length(ids), LONGEST_ID)
    if pc.any(long).as_py():
        ids = pa.array([_hashed(text) for text in ids.to_pylist()], pa.string())
    return ids


def lines(
    rows: pa.RecordBatch, schema: TableSchema, ids: pa.Array, deleted: np.ndarray, target: DocumentTarget
) -> pa.Array:
    """The text of each row: the action, and the document unless the row is deleted. Each line ends with a line feed.

    `deleted` (bool[n]) marks the deleted rows. Raises SinkError for a number that JSON cannot write.
    """
    index = "" if target.sharding[0] else f'"_index":{json.dumps(target.alias)},'
    head = f'{index}"version":{target.version},"version_type":"external_gte","_id":"'
    clean_ids, end = escaped(ids, _ESCAPES), _end(rows, target)
    documents = concatenate(
        [f'{{"index":{{"require_alias":true,{head}', clean_ids, end, *_document(rows, schema, target), "\n"]
    )
    if deleted.any():
        deletes = concatenate([f'{{"delete":{{{head}', clean_ids, end])
        documents = pc.if_else(pa.array(deleted), deletes, documents)
    return documents


def _end(rows: pa.RecordBatch, target: DocumentTarget) -> Piece:
    """The part of the action line after the id."""
    plain_end: Piece = '"}}\n'
    if target.sharding[0]:
        suffixes = shard_suffixes(rows, target)
        shard_aliases = pc.binary_join_element_wise(target.alias, target.sharding[1], suffixes, "")
        aliases = pc.if_else(pc.equal(suffixes, ""), target.alias, shard_aliases)
        plain_end = pc.binary_join_element_wise('","_index":"', escaped(aliases, _ESCAPES), plain_end, "")
    if not target.routing:
        return plain_end
    texts = escaped(plain(rows.column(target.routing)), _ESCAPES)
    routed = pc.binary_join_element_wise('","routing":"', texts, plain_end, "")
    return pc.if_else(pc.fill_null(pc.not_equal(texts, ""), False), routed, plain_end)


def shard_suffixes(rows: pa.RecordBatch, target: DocumentTarget) -> pa.Array:
    """The suffix of the shard that each row belongs to; empty for NULL and an empty text."""
    texts = pc.fill_null(plain(rows.column(target.sharding[0])), "").dictionary_encode()
    return pa.array([shard_suffix(text) for text in texts.dictionary.to_pylist()], pa.string()).take(texts.indices)


def _document(rows: pa.RecordBatch, schema: TableSchema, target: DocumentTarget) -> list[Piece]:
    """The JSON object of each row."""
    pieces: list[Piece] = ["{"]
    for number, (values, column) in enumerate(zip(rows.columns, schema.columns, strict=True)):
        name = json.dumps(column.name, ensure_ascii=False)
        text, quoted = _value(values, column.name, column.type.kind, target)
        pieces.append(f"{',' if number else ''}{name}:")
        if not values.null_count:
            pieces += ['"', text, '"'] if quoted else [text]
        else:
            pieces.append(pc.fill_null(pc.binary_join_element_wise('"', text, '"', "") if quoted else text, "null"))
    return [*pieces, "}"]


def _value(values: pa.Array, name: str, kind: Kind, target: DocumentTarget) -> tuple[pa.Array, bool]:
    """The JSON text of each value, and whether it needs quotes."""
    if kind is Kind.JSON and name in target.objects:
        return values, False
    if pa.types.is_floating(values.type):
        bad = not_finite(values)
        if bad is not None and target.all_numbers:
            return _numbers(values), False
        if bad is not None:
            hint = "leave such rows out with a filter, or make them NULL with a projection"
            raise SinkError(f"{bad} is not a JSON number", where=f"{target.table}.{name}", hint=hint)
        return plain(values), False
    number = pa.types.is_integer(values.type) and name not in target.texts
    if number or pa.types.is_boolean(values.type) or pa.types.is_list(values.type):
        return plain(values), False
    return (escaped(values, _ESCAPES) if pa.types.is_string(values.type) else plain(values)), True


def _numbers(values: pa.Array) -> pa.Array:
    """The values as JSON numbers; as JSON texts where JSON has no such number."""
    names = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
    texts = plain(values)
    for name, text in names.items():
        texts = pc.if_else(pc.equal(texts, name), text, texts)
    return texts


def _quoted(text: pa.Array) -> pa.Array:
    """The texts as JSON strings."""
    return pc.binary_join_element_wise('"', escaped(text, _ESCAPES), '"', "")


def _arrays(texts: Sequence[pa.Array]) -> pa.Array:
    """The texts of each row, as a JSON array."""
    inner = pc.binary_join_element_wise(*map(_quoted, texts), ",") if len(texts) > 1 else _quoted(texts[0])
    return pc.binary_join_element_wise("[", inner, "]", "")


def _hashed(text: str | None) -> str | None:
    if text is None or len(text.encode()) <= LONGEST_ID:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
