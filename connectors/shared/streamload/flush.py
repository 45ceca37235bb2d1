"""Converts a flush to load text: last images, values checked against the table, bytes. Executor; no network.

A flush is the gathered rows of one table that are encoded and sent together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetter
from cdc.schema import TableSchema
from connectors.shared.conversion.fit import Fitter
from connectors.shared.conversion.policy import RejectedValuePolicy
from connectors.shared.conversion.target import TargetTable
from connectors.shared.last_image.last_image import KeylessChanges, LastImages, concat_blocks, every_insert, images
from connectors.shared.sending.sender import FlushResult
from connectors.shared.streamload.dialect import StreamLoadDialect
from connectors.shared.streamload.encode import DelimitedEncoder


@dataclass(frozen=True, slots=True)
class RowRules:
    """The options for rows.

    Attributes:
        rejected_values: treatment of values that the column cannot hold.
        keyless: treatment of updates and deletes of tables without a key.
        deletes: whether deletes are applied.
        time_zone: the zone whose wall clock instants are written in.
        max_key_bytes: the longest encoded key that the server accepts, None without limit.
    """

    rejected_values: RejectedValuePolicy = RejectedValuePolicy.FAIL
    keyless: KeylessChanges = KeylessChanges.FAIL
    deletes: bool = True
    time_zone: str = "UTC"
    max_key_bytes: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFlush:
    """One flush ready to send; `headers` are those that its text needs, `dead_letters` the skipped rows."""

    text: memoryview
    rows: int
    headers: Mapping[str, str]
    written: FlushResult
    dead_letters: tuple[DeadLetter, ...] = ()


class FlushEncoder:
    """Encodes flushes of one table at one schema. Not thread-safe."""

    def __init__(self, schema: TableSchema, target: TargetTable, dialect: StreamLoadDialect, rules: RowRules) -> None:
        """Plan the columns. Raises SinkError when the sink's table lacks one."""
        self._target, self._dialect, self._rules = target, dialect, rules
        self._keys = tuple(_source_name(schema, key) for key in target.keys)
        limit = rules.max_key_bytes if target.upserts else None
        self._fitter = Fitter(
            schema, target, dialect.limits, rules.rejected_values, time_zone=rules.time_zone, max_key_bytes=limit
        )
        self._encoder = DelimitedEncoder(schema, target, dialect)

    def encode(self, blocks: Sequence[ChangeBlock], *, headers_sent: bool) -> EncodedFlush | None:
        """Return the encoded flush; None, with nothing done, when it needs other headers than those already sent.

        Raises SinkError for a value that does not fit, or a change that a table without a key cannot express.
        """
        found = self._images(concat_blocks(blocks))
        fitted = self._fitter.check(found)
        encoder = self._encoder.for_rows(fitted.rows)
        if encoder is not self._encoder:
            if headers_sent:
                return None
            self._encoder = encoder
        text = encoder.encode(fitted.rows, fitted.delete)
        counts = Counter(found.counts)
        counts.update(fitted.counts)
        written = FlushResult(len(text), found.inserts, found.updates, found.deletes, dict(counts))
        headers = {**self._dialect.headers, "columns": encoder.columns_header}
        return EncodedFlush(text, fitted.rows.num_rows, headers, written, fitted.dead_letters)

    def _images(self, block: ChangeBlock) -> LastImages:
        if not self._target.upserts:
            return every_insert(block, self._rules.keyless)
        return images(block, self._keys, deletes=self._rules.deletes)


def _source_name(schema: TableSchema, key: str) -> str:
    """Return the source's spelling of a key column; the servers ignore case."""
    return next((name for name in schema.names if name.casefold() == key.casefold()), key)
