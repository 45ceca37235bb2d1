"""Find the names of the topics for the messages of tables. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc.errors import SinkError
from cdc.pattern import TablePattern
from cdc.schema import TableId

_LONGEST = 249
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Chooses the topic for the messages of a table.

    Attributes:
        one: the topic of all tables; None for one topic per table.
        mapping: patterns of table ids with their topics; the first pattern that matches decides.
        prefix: the prefix of other topics' names, followed by a dot; may be empty.
    """

    one: str | None = None
    mapping: tuple[tuple[str, str], ...] = ()
    prefix: str = ""

    def is_shared(self, table: TableId) -> bool:
        """Whether several tables may have this topic although no option says so."""
        named = self.one is not None or any(TablePattern(pattern).matches(table) for pattern, _ in self.mapping)
        return not named and _NOT_IN_NAMES.search(str(table)) is not None

    def topic(self, table: TableId) -> str:
        """The topic of a sink table. Characters that topic names cannot have become underscores, as in Debezium.

        Raises SinkError for a name that is too long.
        """
        for pattern, topic in self.mapping:
            if TablePattern(pattern).matches(table):
                return topic
        if self.one is not None:
            return self.one
        name = _NOT_IN_NAMES.sub("_", f"{self.prefix}.{table}" if self.prefix else str(table))
        if len(name) > _LONGEST:
            hint = "name a shorter one with sink.tableId-to-topic.mapping"
            raise SinkError(f"the topic's name has more than {_LONGEST} characters", where=str(table), hint=hint)
        return name
