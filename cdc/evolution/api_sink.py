"""Sessions of sinks without SQL: one method per operation. The core plans, orders, repeats them after a crash and
shows the plan.

    class IndexSession(ApiSession[str]):      rules, read, create_table, drop_table, ... of the system
    class IndexSink(TableSink[str]):          schema_session, prepare, commit, abort

Rules (`cdc.evolution.rules.TableRules`) define what is done in place. The planner refuses what they exclude, so such an
operation is never called, and the engine re-snapshots the table into a shadow table. Driver.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.session import TableSession
from cdc.evolution.steps import Check, KeyCheck
from cdc.evolution.table import T


class ApiSession(TableSession[T]):
    """A session that executes operations with API calls. Each method returns once the operation is done.

    A method may be called again after a crash, when the result of `read` does not show that its operation was done.
    Each raises ChangeRefused when the system refuses, SinkUnavailable when the response is lost. The methods that are
    not abstract are for systems whose rules allow the operation.
    """

    @abstractmethod
    def create_table(self, operation: op.CreateTableOp) -> None:
        """Create `new`, empty."""

    @abstractmethod
    def drop_table(self, operation: op.DropTableOp) -> None:
        """Drop a table that exists."""

    @abstractmethod
    def truncate_table(self, operation: op.TruncateTableOp) -> None:
        """Remove all rows."""

    @abstractmethod
    def rename_table(self, operation: op.RenameTableOp) -> None:
        """Rename the table to an unused name."""

    @abstractmethod
    def add_column(self, operation: op.AddColumnOp) -> None:
        """Add a column; existing rows get its default as the rules' `new_column_default` says."""

    @abstractmethod
    def create_shadow(self, operation: op.CreateShadowOp) -> None:
        """Create the shadow table `new`, empty."""

    @abstractmethod
    def swap_shadow(self, operation: op.SwapShadowOp) -> None:
        """Replace the table with the shadow table in one step, such as of an alias, and drop the old table."""

    @abstractmethod
    def drop_shadow(self, operation: op.DropShadowOp) -> None:
        """Drop a shadow table."""

    def create_database(self, operation: op.CreateDatabaseOp) -> None:
        """Create a database; for `has_databases`."""
        raise self._unable(operation)

    def move_table(self, operation: op.MoveTableOp) -> None:
        """Move a table to another database; for `moves_tables`."""
        raise self._unable(operation)

    def comment_table(self, operation: op.CommentTableOp) -> None:
        """Change the comment of a table; for `has_comments`."""
        raise self._unable(operation)

    def comment_column(self, operation: op.CommentColumnOp) -> None:
        """Change the comment of a column; for `has_comments`."""
        raise self._unable(operation)

    def fill_column(self, operation: op.FillColumnOp) -> None:
        """Write the default of a new column to rows that lack it; for `NewColumn.BACK_FILL`. Idempotent."""
        raise self._unable(operation)

    def alter_column(self, operation: op.AlterColumnOp) -> None:
        """Change a column's type in place; for `modifies_in_place`."""
        raise self._unable(operation)

    def rename_column(self, operation: op.RenameColumnOp) -> None:
        """Rename a column; for `renames_columns`."""
        raise self._unable(operation)

    def drop_column(self, operation: op.DropColumnOp) -> None:
        """Drop a column; for `drops_columns`."""
        raise self._unable(operation)

    def rebuild_table(self, operation: op.RebuildTableOp) -> None:
        """Copy the rows into a table with other columns, which then replaces the table; for `rebuilds`."""
        raise self._unable(operation)

    def drop_copy(self, operation: op.DropCopyOp) -> None:
        """Drop a copy left over by a rebuild; for `rebuilds`."""
        raise self._unable(operation)

    def has_rows(self, check: Check | KeyCheck) -> bool:
        """Whether the table has rows that the check excludes; for `checks_rows`."""
        raise ChangeRefused(f"{self.rules.name} cannot check rows", where=str(check.table), resnapshot_helps=True)

    def carry_out(self, operation: op.Operation) -> Iterator[None]:
        """Call the operation's method."""
        getattr(self, METHODS[type(operation)])(operation)
        yield

    def texts(self, operation: op.Operation) -> Sequence[str]:
        """Describe the operation in words."""
        return [op.text_of(operation)]

    def _unable(self, operation: op.Operation) -> ChangeRefused:
        reason = f"{self.rules.name} cannot {op.text_of(operation)}"
        return ChangeRefused(reason, where=str(operation.table), resnapshot_helps=True)


METHODS: Mapping[type[op.Operation], str] = {
    op.CreateDatabaseOp: "create_database",
    op.CreateTableOp: "create_table",
    op.CreateShadowOp: "create_shadow",
    op.SwapShadowOp: "swap_shadow",
    op.DropShadowOp: "drop_shadow",
    op.DropTableOp: "drop_table",
    op.TruncateTableOp: "truncate_table",
    op.RenameTableOp: "rename_table",
    op.MoveTableOp: "move_table",
    op.CommentTableOp: "comment_table",
    op.AddColumnOp: "add_column",
    op.FillColumnOp: "fill_column",
    op.AlterColumnOp: "alter_column",
    op.CommentColumnOp: "comment_column",
    op.RenameColumnOp: "rename_column",
    op.DropColumnOp: "drop_column",
    op.RebuildTableOp: "rebuild_table",
    op.DropCopyOp: "drop_copy",
}
"""Method name by operation."""
