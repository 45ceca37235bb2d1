"""Which options may be edited between two runs, when rows are there that were made with the value before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cdc.schema import TableId, TableSchema


class EditRules:
    """The part of every options model that says which options may be edited.

    Class attributes:
        fixed_reason: what would become of the rows that are there if a value of `fixed` changed.
        start_keys: prefixes of the keys of options that count only where a pipeline, or a table of it, starts: an edit
            is reported, never refused.
    """

    fixed_reason: ClassVar[str] = ""
    start_keys: ClassVar[tuple[str, ...]] = ()

    def fixed(self) -> Mapping[str, str] | None:
        """The values that must stay while a pipeline lives, by keys of the pipeline file; None for none."""
        return None

    def why_fixed(self, key: str) -> str:
        """`fixed_reason`; override where it depends on the key."""
        return self.fixed_reason

    def edit_effect(self, key: str) -> str:
        """The effect of an edit of an option of `start_keys`, in words."""
        return "it counts at the start, and what the pipeline has goes on as it is"

    def edit_matters(self, key: str, before: str, tables: Mapping[TableId, TableSchema]) -> bool:
        """Whether rows of these source tables are others by a value of `fixed` than they were by the one `before`."""
        return True
