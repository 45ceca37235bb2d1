"""What the snapshot's reader makes of a table, for tests to compare."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc_services.server import MySqlServer
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp, result_plan, select_list
from connectors.mysql.snapshot.read.result_stream import ResultStream
from connectors.mysql.table import MySqlTable

SESSION = "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = NULL"


class Reading:
    """Blocks of one SELECT, and what was counted."""

    def __init__(self) -> None:
        self.blocks: list[ChangeBlock] = []
        self.counts: Counter[str] = Counter()

    def count(self, name: str, number: int) -> None:
        self.counts[name] += number

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches([block.rows for block in self.blocks])


def read_all(server: MySqlServer, table: MySqlTable, order: str, *, strict: bool = False, **plan: Any) -> Reading:
    """All rows of a table, sorted."""
    found = Reading()
    with closing(server.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        sql = f"SELECT {select_list(table)} FROM `{table.id.database}`.`{table.id.table}` ORDER BY {order}"
        stream = ResultStream(connection, sql, str(table.id))
        reader = RowReader(
            result_plan(table, stream.columns, where=str(table.id), **plan), Stamp(7, 0, 5), found.count,
            strict=strict, where=str(table.id),
        )  # fmt: skip
        while (packets := stream.read()) is not None:
            found.blocks += reader.read(packets)
        found.blocks += reader.finish()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    for block in found.blocks:
        block.rows.validate(full=True)
    return found
