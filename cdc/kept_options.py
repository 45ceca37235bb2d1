"""Options whose values belong to the rows that are there: what an edit of one between two runs means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cdc.schema import TableId, TableSchema


class KeptOptions:
    """A base of options.

    Class attributes:
        fixed_reason: what would become of the rows that are there if a value of `fixed` changed.
        of_start: how the keys of options begin that count only where a pipeline, or a table of it, starts: an edit is
            told, and refused by nobody.
    """

    fixed_reason: ClassVar[str] = ""
    of_start: ClassVar[tuple[str, ...]] = ()

    def fixed(self) -> Mapping[str, str] | None:
        """The values that must stay while a pipeline lives, by keys of the pipeline file; None for none."""
        return None

    def why_fixed(self, key: str) -> str:
        """`fixed_reason`; override where it depends on the key."""
        return self.fixed_reason

    def told(self, key: str) -> str:
        """The consequence of an edit of an option `of_start`, in words."""
        return "it counts at the start, and what the pipeline has goes on as it is"

    def matters(self, key: str, before: str, tables: Mapping[TableId, TableSchema]) -> bool:
        """Whether rows of these source tables are others by a value of `fixed` than they were by the one `before`."""
        return True
