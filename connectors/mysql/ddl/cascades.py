"""Foreign keys that a statement declares and that change rows without a word in the log, as InnoDB carries them out by
itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from cdc.schema import TableId
from connectors.mysql.ddl.names import names_in
from connectors.shared.ddl.dialect import DdlDialect

SILENT_ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT")
ADVICE = "change the children by statements of their own, before the parent"
_NAME = r'(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+)'
_PARENT = re.compile(rf"\bREFERENCES\s+{_NAME}(?:\s*\.\s*{_NAME})?", re.IGNORECASE)
_REFERENCES = re.compile(r"\bREFERENCES\b", re.IGNORECASE)
_SPACED = "|".join(SILENT_ACTIONS).replace(" ", r"\s+")
_ACTION = re.compile(rf"\bON\s+(?:DELETE|UPDATE)\s+(?:{_SPACED})\b", re.IGNORECASE)


def cascades_in(sql: str, dialect: DdlDialect) -> tuple[str, ...]:
    """Actions of foreign keys that a statement declares and that are not logged: `ON DELETE CASCADE`."""
    if dialect.logs_cascades or not _REFERENCES.search(sql):
        return ()
    return tuple(sorted({" ".join(action.upper().split()) for action in _ACTION.findall(sql)}))


def cascade_notices(actions: Sequence[str], sql: str, database: str, captured: Collection[TableId]) -> Iterator[str]:
    """A notice for the user on the captured table that such a statement is about. One that it only refers to is none:
    its rows do not change silently."""
    tables = names_in(_PARENT.sub("", sql), database, captured)
    if tables:
        yield (
            f"{', '.join(map(str, sorted(tables)))}: a foreign key is declared here, and what it does "
            f"({', '.join(actions)}) is not in this log, and not done in the sink ({ADVICE})"
        )
