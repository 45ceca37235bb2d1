"""Merges clauses of one ALTER TABLE about a column that the statement adds, which MariaDB allows (MDEV-8960). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.schema import LAST
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.statements import (
    AddColumnClause,
    ChangeColumnClause,
    Clause,
    DropColumnClause,
    SetDefaultClause,
)


def with_added_columns_defined(table: MySqlTable, clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Return the clauses with one per added column: a MODIFY replaces its ADD, ALTER ... DEFAULT is merged into it.

    Follows `mysql_prepare_alter_table` of MariaDB's sql/sql_table.cc: if the column is also modified, the default of
    the MODIFY counts.
    """
    dropped = {each.name.lower() for each in clauses if isinstance(each, DropColumnClause)}
    there = {column.name.lower() for column in table.columns} - dropped
    added = {each.column.name.lower() for each in clauses if isinstance(each, AddColumnClause)} - there
    modified = {each.old_name.lower(): each for each in clauses if isinstance(each, ChangeColumnClause)}
    defaults = {each.name.lower(): each for each in clauses if isinstance(each, SetDefaultClause)}
    found: list[Clause] = []
    for clause in clauses:
        match clause:
            case AddColumnClause(column=column) if column.name.lower() in added:
                name = column.name.lower()
                if name in modified:
                    continue
                if name in defaults:
                    clause = replace(clause, column=replace(column, default=defaults[name].default))
            case ChangeColumnClause(old_name=name, column=column, position=position) if name.lower() in added:
                clause = AddColumnClause(column, position or LAST)
            case SetDefaultClause(name=name) if name.lower() in added:
                continue
        found.append(clause)
    return tuple(found)
