"""A sink without SQL: a method for each operation. The core plans, orders, repeats after a crash and shows the plan.

    class IndexSession(ApiSession[str]):      rules, read, create_table, drop_table, ... of the system
    class IndexSink(TableSink[str]):          schema_session, prepare, commit, abort

Rules (`cdc.evolution.rules.TableRules`) say what is done in place; an operation that they exclude never comes. What is
excluded is refused by the planner, and the engine re-snapshots the table into a shadow table. Driver.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.session import TableSession
from cdc.evolution.steps import Check
from cdc.evolution.table import T


class ApiSession(TableSession[T]):
    """A session that carries out operations with calls. Each method returns when the table is so.

    A method may be called again after a crash, when its operation does not show in what `read` gives. Each raises
    ChangeRefused when the system refuses, SinkUnavailable when the answer is lost. Those that are not abstract are
    for systems whose rules allow the operation.
    """

    @abstractmethod
    def create_table(self, operation: op.CreateTableOp) -> None:
        """Make `new`, empty."""

    @abstractmethod
    def drop_table(self, operation: op.DropTableOp) -> None:
        """Drop a table that exists."""

    @abstractmethod
    def truncate_table(self, operation: op.TruncateTableOp) -> None:
        """Remove all rows."""

    @abstractmethod
    def rename_table(self, operation: op.RenameTableOp) -> None:
        """Give the table a free name."""

    @abstractmethod
    def add_column(self, operation: op.AddColumnOp) -> None:
        """Add a column; rows get its default as `new_column_default` of the rules says."""

    @abstractmethod
    def create_shadow(self, operation: op.CreateShadowOp) -> None:
        """Make the shadow table `new`, empty."""

    @abstractmethod
    def swap_shadow(self, operation: op.SwapShadowOp) -> None:
        """Put the shadow table in the table's place in one step, such as of an alias; the former one goes."""

    @abstractmethod
    def drop_shadow(self, operation: op.DropShadowOp) -> None:
        """Drop a shadow table."""

    def create_database(self, operation: op.CreateDatabaseOp) -> None:
        """Make a database; for `has_databases`."""
        raise self._unable(operation)

    def move_table(self, operation: op.MoveTableOp) -> None:
        """Put a table into another database; for `moves_tables`."""
        raise self._unable(operation)

    def comment_table(self, operation: op.CommentTableOp) -> None:
        """Another comment; for `has_comments`."""
        raise self._unable(operation)

    def comment_column(self, operation: op.CommentColumnOp) -> None:
        """Another comment of a column; for `has_comments`."""
        raise self._unable(operation)

    def fill_column(self, operation: op.FillColumnOp) -> None:
        """Put the default of a new column into rows that lack it; for `NewColumn.BACK_FILL`. Repeatable."""
        raise self._unable(operation)

    def alter_column(self, operation: op.AlterColumnOp) -> None:
        """Another type in place; for `in_place`."""
        raise self._unable(operation)

    def rename_column(self, operation: op.RenameColumnOp) -> None:
        """Another name of a column; for `renames_columns`."""
        raise self._unable(operation)

    def drop_column(self, operation: op.DropColumnOp) -> None:
        """Drop a column; for `drops_columns`."""
        raise self._unable(operation)

    def rebuild_table(self, operation: op.RebuildTableOp) -> None:
        """Copy the rows into a table of other columns that takes its place; for `rebuilds`."""
        raise self._unable(operation)

    def drop_copy(self, operation: op.DropCopyOp) -> None:
        """Drop a copy that a rebuild left; for `rebuilds`."""
        raise self._unable(operation)

    def has_rows(self, check: Check) -> bool:
        """True when the table has rows, for `checks_rows`."""
        raise ChangeRefused(f"{self.rules.name} does not look at rows", where=str(check.table), curable=True)

    def carry_out(self, operation: op.Operation) -> Iterator[None]:
        """Call the operation's method."""
        getattr(self, METHODS[type(operation)])(operation)
        yield

    def texts(self, operation: op.Operation) -> Sequence[str]:
        """The operation in words."""
        return [op.text_of(operation)]

    def _unable(self, operation: op.Operation) -> ChangeRefused:
        reason = f"{self.rules.name} cannot {op.text_of(operation)}"
        return ChangeRefused(reason, where=str(operation.table), curable=True)


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
"""The method of each operation."""
