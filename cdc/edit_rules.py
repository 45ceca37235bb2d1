"""Rules for editing options between two runs, when the sink has rows written with the previous value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cdc.schema import TableId, TableSchema


class EditRules:
    """The part of every options model that defines which options may be edited.

    Class attributes:
        fixed_reason: what would happen to existing rows if a value of `fixed` changed.
        start_keys: key prefixes of options that apply only when a pipeline or one of its tables starts: an edit is
            reported, never refused.
    """

    fixed_reason: ClassVar[str] = ""
    start_keys: ClassVar[tuple[str, ...]] = ()

    def fixed(self) -> Mapping[str, str] | None:
        """Return the values that must not change while a pipeline lives, by key of the file; None for none."""
        return None

    def why_fixed(self, key: str) -> str:
        """Return `fixed_reason`; override where the reason depends on the key."""
        return self.fixed_reason

    def edit_effect(self, key: str) -> str:
        """Describe the effect of editing an option of `start_keys`."""
        return "it applies only at the start; what the pipeline already has stays as it is"

    def edit_matters(self, key: str, before: str, tables: Mapping[TableId, TableSchema]) -> bool:
        """Whether the current value of an option gives other rows of these source tables than the value `before`."""
        return True
