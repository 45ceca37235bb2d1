"""Convert values of a message's type to a declared or wider type. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.schema import DataType, Kind
from cdc.types.casts import cast_for
from cdc.types.common import STRING, common_type
from connectors.kafka.formats import convert


def widened(left: DataType, right: DataType) -> DataType:
    """A type that holds every value of both; STRING for an instant and a local time, whose zone is not known."""
    mixed = left.kind is not right.kind and Kind.TIMESTAMP_LTZ in (left.kind, right.kind)
    return STRING if mixed else common_type(left, right)


def adapted(values: pa.Array, known_type: DataType, target: DataType) -> pa.Array:
    """Convert values to a wider type, as found by `widened`."""
    cast = cast_for(known_type, target, "UTC")
    return values if cast is None else cast(values)


def become(values: pa.Array, known_type: DataType, declared: DataType) -> pa.Array:
    """Convert values to any other type. Raises BadValue for a value that the type cannot hold."""
    arrow, message = arrow_type(declared), f"is no {declared}"
    if values.type == arrow:
        return values
    if pa.types.is_binary(values.type):
        texts = convert.cast(values, pa.string(), "is not UTF-8")
        return texts if arrow == pa.string() else convert.cast(texts, arrow, message)
    if pa.types.is_string(arrow):
        return adapted(values, known_type, STRING)
    if pa.types.is_binary(arrow):
        return convert.cast(adapted(values, known_type, STRING), arrow, message)
    if pa.types.is_decimal(values.type) and pa.types.is_floating(arrow):
        return values.cast(arrow)  # rounds to the nearest value, as a server does
    if pa.types.is_decimal(arrow):
        return convert.cast(adapted(values, known_type, STRING), arrow, message)
    found = convert.cast(values, arrow, message)
    if declared.kind is Kind.DATE and pa.types.is_timestamp(values.type):
        cut = np.asarray(pc.not_equal(found.cast(values.type), values).fill_null(False))
        if cut.any():
            raise convert.BadValue(int(np.argmax(cut)), "has a time, which a DATE does not")
    return found
