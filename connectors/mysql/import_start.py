"""Start of a pipeline that takes over from another tool (`cdc import`). Driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cdc.block import ChangeBlock
from cdc.errors import PositionLost
from cdc.source import Context, Offset
from connectors.mysql.batch_planner import BatchPlanner
from connectors.mysql.follow.delivered import after_delivered
from connectors.mysql.follow.imported import import_position
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import splits_of
from connectors.mysql.log_reader import LogReader
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts


def start_at(position: str, options: MySqlSourceOptions, context: Context) -> tuple[Offset, str]:
    """Return the initial offset of the pipeline and a line about it for the user; write its schema history.

    Raises SourceError, PositionLost.
    """
    try:
        found = import_position(position, Parts(options, context).streams)
        parts = Parts(options.model_copy(update=dict(found.options)), context)
        offset, notice = BatchPlanner(parts).begin(), ""
        if found.inside is not None:
            offset, notice = after_delivered(offset, found.inside, parts.streams.at, partial(_rows_between, parts))
    except PositionLost as error:
        hint = "run the pipeline without `cdc import`: with scan.startup.mode: initial it copies the tables first"
        raise PositionLost(error.message, where=error.where, hint=hint) from error
    return offset.to_json(), f"{found.tool}, at {offset.position}{notice}{found.notes}"


def _rows_between(parts: Parts, start: MySqlOffset, end: MySqlOffset) -> Iterator[ChangeBlock]:
    """Read the rows of the log between two offsets before any batch, by the definitions that the log begins with."""
    reader, first = LogReader(parts), parts.schemas.first_entries()
    for split in splits_of(None, start, replace(end, schemas=first), 1):
        yield from reader.read(split.payload, 0, lambda reason, number: None, lambda report: None, lambda: None)
