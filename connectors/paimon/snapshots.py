"""Commits: what makes files part of a table. All go through the Rust package, which writes a snapshot conditionally.

| commit | user | identifier |
|---|---|---|
| a batch's rows | `<prefix>-<pipeline>` | the batch |
| all rows replaced or gone | `<prefix>-<pipeline>-rewrite` | none: it may be done again |
| merged files | `<prefix>-<pipeline>-compact` | none |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.paimon.library import Catalog, native
from connectors.paimon.tables import LakeTable


def overwrite(catalog: Catalog, table: LakeTable, user: str, messages: Sequence[Any]) -> None:
    """One snapshot in which the rows of these messages are all that the table has; may repeat. Raises SinkError."""
    from pypaimon.write.native_commit import to_native_commit_messages

    with catalog.guard(str(table.id)):
        library = table.library.copy({"dynamic-partition-overwrite": "false"})
        builder = native(library).new_batch_write_builder()._with_commit_user(user)
        builder.with_overwrite({}).new_commit().commit(to_native_commit_messages(library, list(messages)))


def truncate(catalog: Catalog, table: LakeTable, user: str) -> None:
    """One snapshot without rows; may repeat. Raises SinkError."""
    with catalog.guard(str(table.id)):
        native(table.library).new_batch_write_builder()._with_commit_user(user).new_commit().truncate_table()
