"""Make schema changes in Doris: the driver executes the statements of the dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cdc.evolution.table import Layout
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from connectors.doris.catalog import read_table
from connectors.doris.dialect import DorisDialect
from connectors.shared.sql.client import SqlSession
from connectors.shared.streamload.schema_session import FEWER_REPLICAS, ServerSchemas, ServerVocabulary
from connectors.shared.streamload.sql_types import SqlType

_NAMES = "name the column otherwise with a projection; of letters alone: SET GLOBAL enable_unicode_name_support = true"


class DorisSchemas(ServerSchemas[SqlType]):
    """An open session for schema changes.

    A copy of a table waits until committed loads are visible, because it would miss their rows.
    """

    words = ServerVocabulary(
        newest_job="CreateTime",
        blocked="see SHOW TRANSACTION, let them end, then start again",
        busy=(
            "is not normal", "transactions in the committed state", "still some transactions", "lock timeout",
            "is not stable",
        ),
        not_leading=(("not master",), ("forward",)),
        grants="GRANT CREATE_PRIV, ALTER_PRIV, DROP_PRIV, LOAD_PRIV and SELECT_PRIV on the database to the user",
        hints=(("replication num", "", FEWER_REPLICAS), ("incorrect column name", "", _NAMES)),
    )  # fmt: skip

    def __init__(
        self,
        session: SqlSession,
        dialect: DorisDialect,
        waits: RetryPolicy,
        wait_until_visible: Callable[[set[str]], None],
    ) -> None:
        super().__init__(session, dialect, waits)
        self._wait_until_visible = wait_until_visible

    def read(self, tables: Sequence[TableId]) -> Layout[SqlType]:
        """Read the tables, with two statements for each one that exists."""
        databases = self.databases()
        comments = {name: self.comments(name) for name in {table.database for table in tables} & set(databases)}
        existing = [table for table in dict.fromkeys(tables) if table.table in comments.get(table.database, {})]
        found = [read_table(self._session, table, comments[table.database][table.table]) for table in existing]
        return Layout(found, databases)

    def wait_for_loads(self, databases: Sequence[str]) -> None:
        """Wait until committed loads are visible, because Doris publishes them asynchronously."""
        self._wait_until_visible(set(databases))
