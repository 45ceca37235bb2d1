"""Make schema changes in StarRocks: the driver executes the statements of the dialect."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.evolution.table import Layout
from cdc.schema import TableId
from connectors.shared.streamload.schema_session import FEWER_REPLICAS, ServerSchemas, ServerVocabulary
from connectors.shared.streamload.sql_types import SqlType
from connectors.starrocks.catalog import read_database


class StarRocksSchemas(ServerSchemas[SqlType]):
    """An open session for schema changes."""

    words = ServerVocabulary(
        newest_job="JobId",
        blocked="see SHOW PROC '/transactions'; roll them back, then start again",
        busy=(
            "schema change operation is in progress", "optimize operation is in progress",
            "rollup operation is in progress", "in the committed state waiting to be completed",
            "there are still some transactions",
        ),
        not_leading=(("leader", "not"), ("forward", "not")),
        grants="GRANT CREATE DATABASE and CREATE TABLE, and on the tables ALTER, DROP, INSERT and SELECT, to the user",
        hints=(
            ("replication num", "", FEWER_REPLICAS),
            ("alive be", "", FEWER_REPLICAS),
            (
                "syntax error",
                "RENAME COLUMN",
                "columns can be renamed from StarRocks 3.3.2 on; rename it there by hand, or upgrade",
            ),
            ("syntax error", "RANDOM", "tables without a key need StarRocks 3.1"),
        ),
    )  # fmt: skip

    def identity(self, table: TableId) -> str:
        """The number of the table's oldest partition, which a rename does not change; empty when it has none."""
        rows = self._session.rows(f"SHOW PARTITIONS FROM {self.dialect.table_name(table)}")
        return str(min((int(str(row[0])) for row in rows), default=""))

    def read(self, tables: Sequence[TableId]) -> Layout[SqlType]:
        """Read the tables, with two queries for each database."""
        databases = self.databases()
        named = sorted({table.database for table in tables} & set(databases))
        return Layout((table for name in named for table in read_database(self._session, name)), databases)
