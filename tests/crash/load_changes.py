"""Random changes of a table with a key and of one without, and what the tables hold after each: a plain replay.

One seed gives one sequence. The rows that are expected come from the changes as they are made up, not from the blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from load_engine import Item

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    Kind,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.testing import block
from cdc.testing.blocks import Row

Image = tuple[str, Row]
_TEXTS = (
    "",
    "a",
    "tab\tand\nline",
    "back\\slash \\N",
    "\\N",
    "'\"`,;|",
    "grüße 😀",
    "\x01\x02\x00",
    " padded ",
    "NULL",
)
_WIDER = {"INT": "BIGINT", "VARCHAR(20)": "VARCHAR(40)", "VARCHAR(40)": "STRING"}
_ADDED = ("INT", "VARCHAR(20)", "BIGINT UNSIGNED", "TIMESTAMP(3)")


@dataclass
class Table:
    """A table of the source: `rows` by number; a table without a key holds equal rows under several numbers."""

    id: TableId
    columns: list[Column]
    keyed: bool
    rows: dict[int, Row] = field(default_factory=dict)

    @property
    def schema(self) -> TableSchema:
        return TableSchema(tuple(self.columns), ("id",) if self.keyed else ())

    @property
    def free(self) -> list[Column]:
        """Columns that may be changed."""
        return self.columns[1:]

    def expected(self) -> Counter[tuple[Any, ...]]:
        """The rows, as tuples in the order of the columns."""
        return Counter(tuple(row[column.name] for column in self.columns) for row in self.rows.values())


class Changes:
    """Makes up batches, seeded. `tables` are as the source has them after the last one."""

    def __init__(self, rng: Random, database: str, kinds: Sequence[str] = ("keyed", "keyless")) -> None:
        self.rng, self._serial, self._sequence = rng, 0, 0
        self.tables = [Table(TableId(database, kind), _columns(), kind == "keyed") for kind in kinds]

    def created(self) -> list[Item]:
        """The first batch: the tables, and rows."""
        return [*(CreateTable(table.id, table.schema) for table in self.tables), *self.rows(6)]

    def batch(self, *, schema_changes: int) -> list[Item]:
        """Schema changes, then rows."""
        changes = [
            change for _ in range(schema_changes) for change in self._schema_change(self.rng.choice(self.tables))
        ]
        return [*changes, *self.rows(self.rng.randint(2, 6))]

    def every_table_changes(self) -> list[Item]:
        """A new column in each table, and rows."""
        return [*(change for table in self.tables for change in self._add_column(table)), *self.rows(4)]

    def rows(self, transactions: int) -> list[Item]:
        """Transactions over all tables, one block each, interleaved."""
        return [self._transaction(table) for _ in range(transactions) for table in self.tables]

    # rows

    def _transaction(self, table: Table) -> Item:
        images: list[Image] = []
        for _ in range(self.rng.randint(1, 4)):
            change = self.rng.choice([self._insert, self._insert, self._update, self._move, self._delete])
            images += change(table) if table.keyed else self._insert(table)
        self._sequence += 1
        return block(table.id, table.schema, images, sequence=self._sequence)

    def _insert(self, table: Table) -> list[Image]:
        number = self._next()
        row = {column.name: self._value(column) for column in table.columns}
        row["id"] = number if table.keyed else self.rng.randint(1, 3)
        table.rows[number] = row
        return [("+I", row)]

    def _update(self, table: Table) -> list[Image]:
        if not table.rows:
            return self._insert(table)
        number = self.rng.choice(list(table.rows))
        before = table.rows[number]
        after = {**before, **{column.name: self._value(column) for column in table.free if self.rng.random() < 0.5}}
        table.rows[number] = after
        return [("-U", before), ("+U", after)]

    def _move(self, table: Table) -> list[Image]:
        """The key changes, to a new one or to one that was there before."""
        if not table.rows:
            return self._insert(table)
        number = self.rng.choice(list(table.rows))
        gone = [old for old in range(1, self._serial) if old not in table.rows]
        to = self.rng.choice(gone) if gone and self.rng.random() < 0.5 else self._next()
        before = table.rows.pop(number)
        table.rows[to] = {**before, "id": to}
        return [("-U", before), ("+U", table.rows[to])]

    def _delete(self, table: Table) -> list[Image]:
        if not table.rows:
            return self._insert(table)
        return [("-D", table.rows.pop(self.rng.choice(list(table.rows))))]

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _value(self, column: Column) -> Any:
        if self.rng.random() < 0.15:
            return None
        match column.type.kind:
            case Kind.INT | Kind.BIGINT:
                return self.rng.choice([0, -1, 2**31 - 1, -(2**31), self.rng.randint(-999, 999)])
            case Kind.BIGINT_UNSIGNED:
                return self.rng.choice([0, 2**64 - 1, self.rng.getrandbits(60)])
            case Kind.DECIMAL:
                return Decimal(self.rng.randint(-(10**11), 10**11)) / 100
            case Kind.TIMESTAMP:
                return datetime(2026, 1, 1) + timedelta(milliseconds=self.rng.randint(0, 10**10))
            case _:
                return self.rng.choice(_TEXTS)

    # schema changes

    def _schema_change(self, table: Table) -> list[SchemaChange]:
        change = self.rng.choice([
            self._add_column, self._add_column, self._drop_column, self._rename_column, self._widen_column,
            self._truncate, self._rename_table,
        ])  # fmt: skip
        return change(table)

    def _add_column(self, table: Table) -> list[SchemaChange]:
        kind = self.rng.choice(_ADDED)
        default: Any = {"INT": 7, "VARCHAR(20)": "it's"}.get(kind) if self.rng.random() < 0.5 else None
        text = None if default is None else str(default)
        column = Column(f"c{self._next()}", DataType.parse(kind), default=text)
        table.columns.append(column)
        table.rows = {number: {**row, column.name: default} for number, row in table.rows.items()}
        return [AddColumn(table.id, column)]

    def _drop_column(self, table: Table) -> list[SchemaChange]:
        if len(table.free) < 2:
            return self._add_column(table)
        column = self.rng.choice(table.free)
        table.columns.remove(column)
        for row in table.rows.values():
            del row[column.name]
        return [DropColumn(table.id, column.name)]

    def _rename_column(self, table: Table) -> list[SchemaChange]:
        column = self.rng.choice(table.free)
        new = Column(f"r{self._next()}", column.type, default=column.default)
        table.columns[table.columns.index(column)] = new
        table.rows = {
            number: {new.name if name == column.name else name: value for name, value in row.items()}
            for number, row in table.rows.items()
        }
        return [RenameColumn(table.id, column.name, new.name)]

    def _widen_column(self, table: Table) -> list[SchemaChange]:
        narrow = [column for column in table.free if str(column.type) in _WIDER]
        if not narrow:
            return self._add_column(table)
        column = self.rng.choice(narrow)
        wide = Column(column.name, DataType.parse(_WIDER[str(column.type)]), default=column.default)
        table.columns[table.columns.index(column)] = wide
        return [AlterColumnType(table.id, wide, column)]

    def _truncate(self, table: Table) -> list[SchemaChange]:
        table.rows = {}
        return [TruncateTable(table.id)]

    def _rename_table(self, table: Table) -> list[SchemaChange]:
        old, table.id = table.id, TableId(table.id.database, f"t{self._next()}")
        return [RenameTable(old, table.id)]


def _columns() -> list[Column]:
    kinds = {"id": "INT", "name": "VARCHAR(20)", "amount": "DECIMAL(12, 2)", "at": "TIMESTAMP(3)", "qty": "INT"}
    return [Column(name, DataType.parse(kind), nullable=name != "id") for name, kind in kinds.items()]
