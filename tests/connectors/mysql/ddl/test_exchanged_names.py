"""Columns that exchange their names in one statement: statement x behavior x sink, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from ddl_tables import catalog
from transform_rules import text

from cdc.errors import ChangeRefused, TransformError
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import CreateTable, RenameColumns, SchemaChange, TableId
from cdc.schema_json import change_from_json, change_name, change_to_json
from cdc.sink import Sink
from cdc.sink_columns import Coercion
from cdc.source import Context
from cdc.spec.model import RouteRule
from cdc.state.store import LocalStore
from cdc.testing import ListSink, ListSource, block, run_in_memory
from cdc.transform.rules import Rules
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.mysql.table import table_schema

pytestmark = pytest.mark.usefixtures("files_stay_open")
T = TableId("shop", "t")
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT)"
TEXT = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))"
KEYS = "CREATE TABLE t (x INT, y INT, v INT, PRIMARY KEY (x, y))"
SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"

CASES: dict[str, tuple[str, str, list[Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    # name: table, statement, (row before, row after), rows with evolve, rows with lenient (None: the same)
    "swap": (TABLE, SWAP, [(1, 10, 20, 30), (2, 1, 2, 3)], [
        {"id": 1, "a": 20, "b": 10, "c": 30}, {"id": 2, "a": 2, "b": 1, "c": 3}], []),
    "change of case": (TABLE, "ALTER TABLE t RENAME COLUMN a TO B, RENAME COLUMN b TO a", [
        (1, 10, 20, 30), (2, 1, 2, 3)], [
        {"id": 1, "a": 20, "b": 10, "c": 30}, {"id": 2, "a": 2, "b": 1, "c": 3}], []),
    "ring of three": (TABLE, "ALTER TABLE t CHANGE a b INT, CHANGE b c INT, CHANGE c a INT", [
        (1, 10, 20, 30), (2, 1, 2, 3)], [
        {"id": 1, "a": 30, "b": 10, "c": 20}, {"id": 2, "a": 3, "b": 1, "c": 2}], []),
    "other types": (TEXT, "ALTER TABLE t CHANGE a b BIGINT, CHANGE b a VARCHAR(30)", [(1, 10, "x"), (2, 1, "y")], [
        {"id": 1, "a": "x", "b": 10}, {"id": 2, "a": "y", "b": 1}], []),
    "parts of the key": (KEYS, "ALTER TABLE t RENAME COLUMN x TO y, RENAME COLUMN y TO x", [(1, 10, 5), (2, 20, 6)], [
        {"x": 10, "y": 1, "v": 5}, {"x": 20, "y": 2, "v": 6}], []),
    "key and another": (TABLE, "ALTER TABLE t CHANGE id a INT, CHANGE a id INT", [(1, 10, 20, 30), (2, 1, 2, 3)], [
        {"id": 10, "a": 1, "b": 20, "c": 30}, {"id": 1, "a": 2, "b": 2, "c": 3}], []),
    "chain": (TABLE, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO d", [(1, 10, 20, 30), (2, 1, 2, 3)], [
        {"id": 1, "b": 10, "c": 30, "d": 20}, {"id": 2, "b": 1, "c": 3, "d": 2}], [
        {"id": 1, "a": 10, "b": None, "c": 30, "d": 20}, {"id": 2, "a": None, "b": 1, "c": 3, "d": 2}]),
    "with more": (TABLE, SWAP + ", DROP COLUMN c, ADD e INT DEFAULT 7", [(1, 10, 20, 30), (2, 1, 2, 8)], [
        {"id": 1, "a": 20, "b": 10, "e": 7}, {"id": 2, "a": 2, "b": 1, "e": 8}], [
        {"id": 1, "a": 20, "b": 10, "c": 30, "e": 7}, {"id": 2, "a": 2, "b": 1, "c": None, "e": 8}]),
}  # fmt: skip


def source(name: str) -> list[Any]:
    """CREATE, a row, the statement, a row: as the log has them. Both rows are written in the order of the CREATE."""
    create, statement, (before, after), _, _ = CASES[name]
    one = catalog()
    items: list[Any] = [*one.apply(create, "shop").changes]
    first = table_schema(one.tables[T])
    items += [block(T, first, [("+I", dict(zip(first.names, before, strict=True)))], sequence=1)]
    items += one.apply(statement, "shop").changes
    second = table_schema(one.tables[T])
    values = dict(zip(second.names, after, strict=True))
    return [*items, block(T, second, [("+I", values)], sequence=2)]


def routing(behavior: str, *rules: RouteRule, exclude: tuple[str, ...] | None = None) -> Middle:
    return Middle(RouteTable(rules), Policy(Behavior(behavior), exclude=exclude), Coercion("fail"))


def run(items: list[Any], sink: Sink, how: Middle, rules: Rules | None = None) -> None:
    run_in_memory(ListSource(items), sink, middle=replace(how, rules=rules))


def made(**keys: Any) -> Rules:
    texts = {k: text(v) if isinstance(v, str) else {c: text(m) for c, m in v.items()} for k, v in keys.items()}
    return Rules([RuleSource("transform[0]", "shop.t", RuleTexts(**texts), "fail")], RuleSettings())


def listed(items: list[Any], how: Middle, folder: Path) -> list[dict[str, Any]]:
    sink = ListSink()
    run(items, sink, how)
    return sink.rows(T)


def in_duckdb(items: list[Any], how: Middle, folder: Path) -> list[dict[str, Any]]:
    path = folder / "sink.duckdb"
    folder.mkdir()
    options = DuckDbSinkOptions(type="duckdb", path=str(path))
    run(items, DuckDbSink(options, Context("p", LocalStore(folder / "state"))), how)
    with duckdb.connect(str(path), read_only=True) as there:
        found: list[dict[str, Any]] = there.sql("SELECT * FROM shop.t").to_arrow_table().to_pylist()
    return found


def plain(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Rows without the order of columns and the case of their names."""
    return sorted((sorted((name.lower(), value) for name, value in row.items()) for row in rows), key=str)


@pytest.mark.usefixtures("files_stay_open")
@pytest.mark.parametrize("name", CASES)
def test_no_value_gets_into_the_column_of_another(name: str, tmp_path: Path) -> None:
    """A sink has the same operations whatever behavior they come from, unless `lenient` leaves more columns."""
    *_, exact, lenient = CASES[name]
    for behavior, wanted in (("evolve", exact), ("try_evolve", exact), ("lenient", lenient or exact)):
        assert plain(listed(source(name), routing(behavior), tmp_path)) == plain(wanted), behavior
    for behavior, wanted in (("evolve", exact), ("lenient", lenient)):
        if wanted:
            assert plain(in_duckdb(source(name), routing(behavior), tmp_path / behavior)) == plain(wanted), behavior


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("behavior", "exclude"), [
    ("ignore", None), ("evolve", ("rename.column",)), ("try_evolve", ("rename",)), ("lenient", ("column",)),
])  # fmt: skip
def test_an_exchange_that_may_not_be_carried_out_stops_the_run(
    name: str, behavior: str, exclude: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with pytest.raises(ChangeRefused, match="columns exchange their names") as caught:
        listed(source(name), routing(behavior, exclude=exclude), tmp_path)
    assert "let rename.column through" in caught.value.hint


def test_the_way_out_of_the_refusal_leads_on(tmp_path: Path) -> None:
    """The same batch under the default carries the exchange out."""
    sink, items = ListSink(), source("swap")
    with pytest.raises(ChangeRefused):
        run_in_memory(ListSource(items), sink, middle=routing("ignore"), state=tmp_path)
    run_in_memory(ListSource(items), sink, middle=routing("lenient"), state=tmp_path)
    assert plain(sink.rows(T)) == plain(CASES["swap"][3])


@pytest.mark.parametrize("behavior", ["evolve", "lenient", "try_evolve"])
def test_one_of_several_tables_stops_where_its_rows_cannot_be_copied(behavior: str, tmp_path: Path) -> None:
    """Its rows are not to be told from those of the other table."""
    items, other = source("swap"), TableId("shop", "u")
    created, first = items[0], items[1]
    row = {"id": 9, "a": 0, "b": 0, "c": 0}
    more = [CreateTable(other, created.schema), block(other, created.schema, [("+I", row)], sequence=1)]
    merge = RouteRule(source_table=r"shop.\.*", sink_table="ods.all")
    with pytest.raises(ChangeRefused, match=r"rename\.column a to b, b to a of shop\.t: its rows"):
        listed([created, *more, first, *items[2:]], routing(behavior, merge), tmp_path)


@pytest.mark.parametrize("rule", [
    {"projection": "id, a"}, {"projection": r"\*, UPPER(CAST(b AS STRING)) AS up"}, {"filter": "a > 0"},
    {"mask": {"a": "REDACT"}},
])  # fmt: skip
def test_a_rule_that_names_one_of_the_columns_stops_the_run(rule: dict[str, Any]) -> None:
    """Or it would compute with the other one from then on."""
    with pytest.raises(TransformError, match="renamed the columns a to b, b to a"):
        run(source("swap"), ListSink(), routing("evolve"), made(**rule))


def test_a_rule_that_names_none_of_them_follows() -> None:
    sink = ListSink()
    run(source("swap"), sink, routing("evolve"), made(projection=r"\*, c + 1 AS d"))
    assert plain(sink.rows(T)) == plain([
        {"id": 1, "a": 20, "b": 10, "c": 30, "d": 31}, {"id": 2, "a": 2, "b": 1, "c": 3, "d": 4}])  # fmt: skip


def test_the_change_is_one_and_counts_as_rename_column() -> None:
    renames: list[SchemaChange] = [item for item in source("swap") if isinstance(item, RenameColumns)]
    assert renames == [RenameColumns(T, (("a", "b"), ("b", "a")))]
    assert change_name(renames[0]) == "rename.column"
    assert change_from_json(change_to_json(renames[0])) == renames[0]
