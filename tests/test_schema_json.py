"""Schemas and schema changes as JSON: what is written is read back, and what cannot be is said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from together import together

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Kind,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.schema_json import change_from_json, change_to_json

NAMES = st.text(min_size=1, max_size=5)
IDS = st.builds(TableId, NAMES, NAMES) | st.builds(TableId, st.just(""), NAMES)
TYPES = st.sampled_from([DataType(Kind.INT), DataType(Kind.VARCHAR, 7), DataType(Kind.DECIMAL, 65, 30)])
COLUMNS = st.builds(Column, NAMES, TYPES, st.booleans(), st.none() | st.text(), st.text(max_size=3))
KEYS = st.lists(NAMES, max_size=3).map(tuple)
POSITIONS = st.sampled_from([Position(), Position(first=True), Position(after="x")])
SCHEMAS = st.builds(TableSchema, st.lists(COLUMNS, max_size=3).map(tuple), KEYS, st.text(max_size=3))
CHANGES = st.one_of(
    st.builds(CreateTable, IDS, SCHEMAS),
    st.builds(AddColumn, IDS, COLUMNS, POSITIONS),
    st.builds(AlterColumnType, IDS, COLUMNS, st.none() | COLUMNS),
    st.builds(RenameColumn, IDS, NAMES, NAMES),
    st.builds(DropColumn, IDS, NAMES),
    st.builds(AlterPrimaryKey, IDS, KEYS),
    st.builds(RenameTable, IDS, IDS),
    st.builds(TruncateTable, IDS),
    st.builds(DropTable, IDS),
    st.builds(CreateShadow, IDS),
    st.builds(CreateShadow, IDS, SCHEMAS),
    st.builds(SwapShadow, IDS),
    st.builds(AlterTableComment, IDS, st.text(max_size=3)),
)


@given(CHANGES)
def test_a_change_reads_back(change: SchemaChange) -> None:
    assert change_from_json(json.loads(json.dumps(change_to_json(change)))) == change


def test_what_is_usual_is_left_out() -> None:
    change = AddColumn(TableId("shop", "t"), Column("a", DataType(Kind.INT)))
    assert change_to_json(change) == {"change": "add.column", "table": "shop.t", "column": {"name": "a", "type": "INT"}}


@together(
    "value, reason",
    [
        ([], "a schema change is an object"),
        ({"change": "frob"}, "unknown schema change 'frob'; known: create.table"),
        ({"change": ["drop.table"]}, r"unknown schema change \['drop.table'\]"),
        ({"change": "drop.table"}, "a table id is text"),
        ({"change": "drop.table", "table": "t", "colour": 1}, "drop.table has no key 'colour'"),
        ({"change": "drop.column", "table": "t"}, "name must be text"),
        ({"change": "create.table", "table": "t", "schema": {}}, "a schema needs a list of columns"),
        ({"change": "create.table", "table": "t"}, "a schema is an object"),
        ({"change": "add.column", "table": "t", "column": {"name": "a", "type": "WIBBLE"}}, "unknown type 'WIBBLE'"),
        (
            {"change": "add.column", "table": "t", "column": {"name": "a", "type": "INT", "nullable": 1}},
            "nullable must",
        ),
        ({"change": "add.column", "table": "t", "column": {"name": "a", "type": "INT", "default": 1}}, "default must"),
        (
            {"change": "add.column", "table": "t", "column": {"name": "a", "type": "INT"}, "position": "last"},
            'a position is "first"',
        ),
        ({"change": "alter.primary.key", "table": "t", "primary_key": "id"}, "primary_key must be a list"),
    ],
)
def test_what_cannot_be_read_is_said(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        change_from_json(value)
