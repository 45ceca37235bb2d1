"""Parse the partition fields that users write, and split rows by partition.

An example is `day(created),bucket[16](id),region`. The transforms are those of the format's specification ("Partition
Transforms"), spelled as in Flink CDC's `partition.key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError

_FIELD = re.compile(
    r"(?:(?P<name>year|month|day|hour|identity|void|bucket|truncate)(?:\[(?P<width>\d+)\])?)\((?P<of>.+)\)"
)
_PLURAL = re.compile(r"^(year|month|day|hour)s\(")
_DAYS = {"date", "timestamp", "timestamptz"}
_TAKES = {
    "year": _DAYS, "month": _DAYS, "day": _DAYS, "hour": _DAYS - {"date"},
    "bucket": _DAYS | {"int", "long", "decimal", "string", "binary"},
    "truncate": {"int", "long", "decimal", "string", "binary"},
    "identity": _DAYS | {"boolean", "int", "long", "float", "decimal", "string", "binary"},
}  # fmt: skip
"""The types that a transform takes, without parameters ("Partition Transforms"). `double` lacks identity here: the
library reads such partition values as float, so delete files would be in another partition than their data."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A transform of a column, such as `day` or `bucket[16]`."""

    column: str
    transform: str = "identity"

    @property
    def name(self) -> str:
        """The field's name in the table, as other writers of the format choose it."""
        transform = self.transform.partition("[")[0]
        suffix = {"identity": "", "bucket": "_bucket", "truncate": "_trunc", "void": "_null"}.get(
            transform, f"_{transform}"
        )
        return self.column + suffix

    def accepts(self, column_type: str) -> bool:
        """Whether a column of the type can be partitioned by this transform, and its values be read back."""
        transform, plain = self.transform.partition("[")[0], column_type.partition("(")[0]
        return plain in _TAKES.get(transform, {plain})

    def __str__(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


def parse_partition(fields: Sequence[str]) -> tuple[PartitionField, ...]:
    """Parse the fields of one table. Raises ValueError for one that is malformed."""
    return tuple(_field(text.strip()) for text in fields)


def _field(text: str) -> PartitionField:
    text = _PLURAL.sub(r"\1(", text)
    found = _FIELD.fullmatch(text)
    if found is None:
        if "(" in text or "[" in text:
            raise ValueError(f"{text!r} is neither a column nor a transform such as day(created) or bucket[16](id)")
        return PartitionField(text)
    name, width = found["name"], found["width"]
    if (width is not None) != (name in ("bucket", "truncate")) or width == "0":
        raise ValueError(f"{text!r}: bucket[n] and truncate[n] have a number above 0, other transforms have none")
    return PartitionField(found["of"].strip(), name if width is None else f"{name}[{int(width)}]")


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of one partition: indexes into a batch, or None for all rows; `values` is the library's record."""

    values: Any
    rows: pa.Array | None


def split_by_partition(table: Any, rows: pa.RecordBatch) -> Iterator[Partition]:
    """Split rows by the table's present partition spec. `table` is the library's. Raises SinkError."""
    from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
    from pyiceberg.typedef import Record

    spec, schema = table.spec(), table.schema()
    if spec.is_unpartitioned():
        yield Partition(Record(), None)
        return
    names = [f"p{index}" for index in range(len(spec.fields))]
    columns = [_transformed(schema, field, rows) for field in spec.fields]
    numbered = pa.table([*columns, pa.array(range(rows.num_rows), pa.int64())], names=[*names, "row"])
    groups = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    for group in groups.to_pylist():
        for field, column, name in zip(spec.fields, columns, names, strict=True):
            _check_digits(field, column.type, group[name])
        values = [PartitionFieldValue(field, group[name]) for field, name in zip(spec.fields, names, strict=True)]
        key = PartitionKey(field_values=values, partition_spec=spec, schema=schema)
        yield Partition(key.partition, pa.array(group["row_list"], pa.int64()))


def _check_digits(field: Any, kind: pa.DataType, value: Any) -> None:
    """Raise SinkError for a decimal that has more digits than its type after truncation: no manifest can hold it."""
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > kind.precision:
        hint = "partition by something else, or let the column have more digits"
        raise SinkError(f"{field.transform} makes {value} of a value, more than {kind.precision} digits", hint=hint)


def _transformed(schema: Any, field: Any, rows: pa.RecordBatch) -> pa.Array:
    source = schema.find_field(field.source_id)
    values = rows.column(source.name)
    if str(field.transform) == "identity":
        return values
    found = field.transform.pyarrow_transform(source.field_type)(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else pc.cast(found, found.type)
