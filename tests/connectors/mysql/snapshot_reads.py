"""What the snapshot's reader makes of a table, for tests to compare."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc_services.server import MySqlServer
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import ResultStream
from connectors.mysql.table import MySqlTable
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules

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


def read_all(server: MySqlServer, table: MySqlTable, order: str, rules: ValueRules = DEFAULT_RULES) -> Reading:
    """All rows of a table, sorted."""
    found = Reading()
    with closing(server.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        sql = f"{select_from(table)} ORDER BY {order}"
        stream = ResultStream(connection, sql, str(table.id))
        reader = RowReader(table, stream.columns, Stamp(7, 0, 5), found.count, rules, where=str(table.id))
        found.blocks += reader.blocks(stream)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    for block in found.blocks:
        block.rows.validate(full=True)
    return found
