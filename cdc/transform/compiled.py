"""A rule compiled for one table schema: kept while the schema lives, applied to one block after another.

A filter evaluates the before and the after image of an update separately.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_schema, arrow_type
from cdc.schema import DataType, Kind, TableSchema
from cdc.transform import inputs
from cdc.transform.computation import Computation
from cdc.transform.engine import ExpressionFailed
from cdc.transform.failures import Counts, explain, tolerant
from cdc.transform.key_only import check_keys, computed_for, first_images, undecided_rows
from cdc.transform.rejected_rows import without_failing

Kinds = npt.NDArray[np.uint8]
_NONE = np.zeros(0, np.int64)


def filtered_kinds(kinds: Kinds, sequence: npt.NDArray[np.int64], passed: npt.NDArray[np.bool_]) -> Kinds:
    """Return the row kinds after a filter: an update of which only one image passes becomes a delete or an insert.

    Args:
        kinds: uint8[n], `RowKind` numbers.
        sequence: int64[n]; equal for both images of an update.
        passed: bool[n]; the images that pass.

    An image whose partner is not in the block keeps its kind.
    """
    result = kinds.copy()
    first = first_images(kinds, sequence)
    dropped = np.flatnonzero(first & passed[:-1] & ~passed[1:])
    entered = np.flatnonzero(first & ~passed[:-1] & passed[1:]) + 1
    result[dropped] = RowKind.DELETE
    result[entered] = RowKind.INSERT
    return result


def passed_kinds(
    block: ChangeBlock, rows: npt.NDArray[np.int64] | None, dropped: npt.NDArray[np.int64], *, soft_delete: bool
) -> pa.Array:
    """Return the kinds of the rows that pass, in order; `rows` is None when all do, `dropped` become deletes."""
    kinds = block.kinds.to_numpy()
    if rows is None and not soft_delete:
        return block.kinds
    if rows is not None:
        kinds = kinds.copy()
        kinds[dropped] = RowKind.DELETE
        passed = np.zeros(len(block), dtype=np.bool_)
        passed[rows] = True
        kinds = filtered_kinds(kinds, block.sequence.to_numpy(), passed)[rows]
    if soft_delete:  # deletes become inserts of the deleted row
        kinds = np.where(kinds == RowKind.DELETE, np.uint8(RowKind.INSERT), kinds).astype(np.uint8)
    return pa.array(kinds, pa.uint8())


@dataclass(frozen=True)
class CompiledRule(Computation):
    """A rule compiled for tables of one schema. Used only in the engine's thread.

    Attributes:
        source: schema of the input blocks.
        schema: schema of the resulting blocks, with the key of `primary-keys`.
        partition_keys, table_options: for creating the sink table.
    """

    source: TableSchema
    schema: TableSchema
    partition_keys: tuple[str, ...]
    table_options: Mapping[str, str]
    _names: tuple[str, ...]
    _input: pa.Schema

    def apply(self, block: ChangeBlock, now: datetime.datetime, counts: Counts | None = None) -> ChangeBlock:
        """Apply the rule to a block; the result may have fewer rows.

        Args:
            block: rows of the schema `source`, with the source table's id.
            now: the batch's time, zone-aware; the same in a replay.
            counts: collects the number of failed values (`on-error: null`) and the rejected rows (`dead-letter`).

        Raises TransformError with table, key, column and expression when an expression fails on a value and the rule
        says `fail`.
        """
        if len(block) == 0 or (self.statement is None and not self.rule.soft_delete and self._same_columns):
            result = self._build_block(block, now, None, [], _NONE)
        else:
            result = self._build_block(block, now, *self._evaluate(block, now, counts))
        if not block.whole:
            check_keys(self, result)
        return result

    def close(self) -> None:
        """Release its statement; the rule must not be used afterwards."""
        if self.statement is not None:
            self.statement.close()

    def _hidden(self, block: ChangeBlock, name: str, now: datetime.datetime) -> pa.Array:
        return inputs.hidden(block, name, now, namespaces=self.rule.namespaces)

    @property
    def _same_columns(self) -> bool:
        return all(output.passes for output in self.outputs)

    def _evaluate(
        self, block: ChangeBlock, now: datetime.datetime, counts: Counts | None
    ) -> tuple[np.ndarray | None, list[pa.Array], np.ndarray]:
        """Return the indexes of the rows that pass (None for all), their computed columns, and the indexes of rows that
        become deletes."""
        if self.statement is None:
            return None, [], _NONE
        passed: np.ndarray | None = None
        try:
            batch = inputs.engine_batch(block, self._names, self._input, now, namespaces=self.rule.namespaces)
            table = self.run(batch)
        except inputs.BadText as error:
            raise explain(
                self, block, error.row, f"column {error.column}", error.column, "the value is not UTF-8 text"
            ) from error
        except ExpressionFailed as error:
            if self.rule.on_error == "dead-letter":
                table, passed = without_failing(self, block, batch, error, counts)
            else:
                table = tolerant(self, block, batch, error, counts)
        arrays = [table.column(number).combine_chunks() for number in range(table.num_columns)]
        if self.filter is not None:
            passed, arrays = arrays[0].to_numpy(zero_copy_only=False), arrays[1:]
        if passed is None or len(passed) == len(block):
            return None, arrays, _NONE
        return (passed, arrays, _NONE) if block.whole else self._with_undecided(block, batch, passed, arrays)

    def _with_undecided(
        self, block: ChangeBlock, batch: pa.RecordBatch, passed: np.ndarray, arrays: list[pa.Array]
    ) -> tuple[np.ndarray, list[pa.Array], np.ndarray]:
        old, dropped = undecided_rows(self, block, passed)
        more = np.concatenate([old, dropped])
        if not len(more):
            return passed, arrays, _NONE
        others = computed_for(self, batch, more, self.schema.primary_key)
        rows = np.concatenate([passed, more])
        order = np.argsort(rows)
        both = [pa.concat_arrays([first, other.cast(first.type)]) for first, other in zip(arrays, others, strict=True)]
        return rows[order], [column.take(pa.array(order)) for column in both], dropped

    def _build_block(
        self, block: ChangeBlock, now: datetime.datetime, rows: np.ndarray | None, computed: list[pa.Array],
        dropped: np.ndarray,
    ) -> ChangeBlock:  # fmt: skip
        indices = None if rows is None else pa.array(rows, pa.int32())

        def passed(array: pa.Array) -> pa.Array:
            return array if indices is None else array.take(indices)

        known = {column.name: number for number, column in enumerate(self.source.columns)}
        arrays: list[pa.Array] = []
        waiting = iter(computed)
        for output in self.outputs:
            if output.passes:
                name = output.node.value
                clear = block.rows.column(known[name]) if name in known else self._hidden(block, name, now)
                arrays.append(passed(clear))
            else:
                empty = pa.array([], arrow_type(output.column.type))
                arrays.append(_column(next(waiting), output.column.type) if computed else empty)
        return replace(
            block,
            schema=self.schema,
            rows=pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.schema)),
            kinds=passed_kinds(block, rows, dropped, soft_delete=self.rule.soft_delete),
            sequence=passed(block.sequence),
            row=passed(block.row),
            timestamps_ms=passed(block.timestamps_ms),
        )


def _column(array: pa.Array, kind: DataType) -> pa.Array:
    """Convert a computed column to the Arrow type of blocks."""
    target = arrow_type(kind)
    if array.type == target:
        return array
    if kind.kind is Kind.TIME:
        return array.view(target)
    return array.cast(target)
