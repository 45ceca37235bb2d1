"""XA transactions that are prepared and not yet committed or rolled back. Stream reader process.

Their rows are delivered when they are prepared, as the log has the rows there.
"""

from __future__ import annotations

import re

from cdc.errors import CorruptLog
from cdc.schema import TableId

_XID = re.compile(r"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(\d+)", re.IGNORECASE)


class PreparedTransactions:
    """Captured tables that each prepared XA transaction has rows of.

    Attributes:
        seen: whether the log had any prepared transaction: what follows depends on what came before.
    """

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], frozenset[TableId]] = {}
        self.seen = False

    def add(self, body: bytes, tables: frozenset[TableId], where: str) -> None:
        """Read an XA_PREPARE event, of a transaction with rows of these tables. Raises CorruptLog."""
        if len(body) < 13:
            raise CorruptLog("an XA_PREPARE event is too short", where=where)
        format_id, gtrid, bqual = (int.from_bytes(body[at : at + 4], "little") for at in (1, 5, 9))
        data = body[13 : 13 + gtrid + bqual]
        one_phase = body[0] != 0
        if not one_phase:
            self.seen = True
            self._tables[data[:gtrid].hex(), data[gtrid:].hex(), str(format_id)] = tables

    def end(self, statement: str) -> frozenset[TableId] | None:
        """Read XA COMMIT or XA ROLLBACK; returns the tables whose rows a rollback undoes, None if they are unknown."""
        self.seen = True
        xid = _XID.search(statement)
        tables = self._tables.pop(tuple(part.lower() for part in xid.groups()), None) if xid else None
        return tables if statement.split()[1].upper() == "ROLLBACK" else frozenset()
