"""The row kernel: decodes ROWS events of one table into column buffers, without Python per row or event.

Rows are decoded in batches that fit in the processor's first cache: `placing` finds their values, `columns` converts
them column by column. The remaining cases are decoded row by row: the last events of a buffer, changes to JSON
documents, an arena that becomes full, and all errors.

All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.columns import decode_columns
from connectors.mysql.kernels.ops import BUFFER, CONTEXT, IMAGE, STATE, offset
from connectors.mysql.kernels.placing import place_images
from connectors.mysql.kernels.row_by_row import decode_row_by_row, undo_rows
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek64, poke64

_LAST, _GOAL = offset(BUFFER, "last"), offset(IMAGE, "goal")
_STATE, _IMAGE = offset(CONTEXT, "state"), offset(CONTEXT, "image")
_EVENT, _AT, _DONE_ROWS = offset(STATE, "event"), offset(STATE, "at"), offset(STATE, "rows")
_SEQUENCE, _NEXT_ROW, _SLOW = offset(STATE, "sequence"), offset(STATE, "next_row"), offset(STATE, "slow")


@kernel.entry
def decode_rows(buffer: Int, columns: Int, layout: Int, head: Int, capacity: Int, context: Int) -> Int:
    """Decode the rows events order[state.event:last] of one table into an open arena.

    buffer: a BUFFER record. columns: the table's number of columns. layout: COLUMN records; head: a HEAD record;
    capacity: rows that fit. context: a CONTEXT record.

    Returns DONE; FULL when the block is full (call again with a new arena: state says where to continue); otherwise a
    code whose details are in `fault`.
    """
    state = peek64(context + _STATE)
    goal = peek64(peek64(context + _IMAGE) + _GOAL)
    while peek64(state + _EVENT) < peek64(buffer + _LAST):
        slow, row = peek64(state + _SLOW), peek64(state + _DONE_ROWS)
        count = place_images(buffer, columns, head, capacity, context, goal)
        placed = count > 0
        if placed and decode_columns(count, columns, layout, head, context) != ops.DONE:
            undo_rows(row, slow, columns, layout, state)
            placed = False
        if not placed:
            return decode_row_by_row(buffer, columns, layout, head, capacity, context)
        poke64(state + _DONE_ROWS, row + count)
        poke64(state + _EVENT, peek64(goal + _EVENT))
        poke64(state + _AT, peek64(goal + _AT))
        poke64(state + _SEQUENCE, peek64(goal + _SEQUENCE))
        poke64(state + _NEXT_ROW, peek64(goal + _NEXT_ROW))
    return ops.DONE
