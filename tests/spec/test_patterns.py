"""Table patterns of a pipeline file: one reader for all options that hold them, and patterns that match nothing."""

from __future__ import annotations

import pytest
from together import together

from cdc.errors import SpecError
from cdc.planning.table_checks import check_patterns
from cdc.schema import TableId
from cdc.spec.check import check
from cdc.spec.compiled import compile_spec
from cdc.spec.model import Checked

MYSQL = "{type: mysql, hostname: 127.0.0.1, username: u, password: p, tables: 'TABLES'MORE}"
KAFKA = "{type: kafka, properties.bootstrap.servers: 'h:1', topics: aMORE}"
SINK = "{type: values}"
KAFKA_SINK = "{type: kafka, properties.bootstrap.servers: 'h:1'MORE}"


def read(source: str = MYSQL, sink: str = SINK, more: str = "", tables: str = r"crm.\.*", rest: str = "") -> Checked:
    text = f"source: {source}\nsink: {sink}\n{rest}".replace("TABLES", tables).replace("MORE", more)
    return check("p.yaml", text.encode(), env={})


PLACES = {
    "tables": {"tables": "PATTERN"},
    "tables.exclude": {"more": ", tables.exclude: 'PATTERN'"},
    "table-modes": {"more": ", scan.startup.table-modes: {'PATTERN': initial}"},
    "filters": {"more": ", scan.snapshot.filters: {'PATTERN': a > 1}"},
    "key-column": {"more": ", scan.incremental.snapshot.chunk.key-column: 'PATTERN:id'"},
    "kafka tables": {"source": KAFKA, "more": ", tables: 'PATTERN'"},
    "primary-keys": {"source": KAFKA, "more": ", primary-keys: {'PATTERN': [id]}"},
    "columns": {"source": KAFKA, "more": ", columns: {'PATTERN': {a: INT}}"},
    "mapping": {"source": KAFKA, "sink": KAFKA_SINK.replace("MORE", ", sink.tableId-to-topic.mapping: 'PATTERN:b'")},
    "route": {"rest": "route: [{source-table: 'PATTERN', sink-table: a.b}]\n"},
    "transform": {"rest": "transform: [{source-table: 'PATTERN', filter: a > 1}]\n"},
}


@together("place", PLACES)
@together("pattern", ["crm.t{1,2}", "crm.(a", "crm.*", "a.b.c.d"])
def test_a_pattern_is_refused_wherever_it_stands(place: str, pattern: str) -> None:
    given = {key: text.replace("PATTERN", pattern) for key, text in PLACES[place].items()}
    with pytest.raises(SpecError) as caught:
        read(**given)
    (problem,) = caught.value.problems
    assert "pattern `" in problem.message
    assert problem.line > 0
    assert problem.hint


@together("place", [place for place in PLACES if "kafka" not in str(PLACES[place])])
def test_a_pattern_without_a_database_is_refused_wherever_ids_have_one(place: str) -> None:
    given = {key: text.replace("PATTERN", "orders") for key, text in PLACES[place].items()}
    with pytest.raises(SpecError, match="`orders` is a pattern of one part, which matches no table"):
        read(**given)


def test_topics_without_a_database_are_tables_of_one_part() -> None:
    rule = "route: [{source-table: orders, sink-table: a.b}]\n"
    assert read(KAFKA, more=", tables: orders", rest=rule).spec.route[0].source_table == "orders"


@together(
    "pattern, refused",
    [(r"shop\.[a-z]+", False), ("t{1,2}", False), (r"a\.(b", True), (r"\p{L}+", True), ("a{", True)],
)
def test_a_topic_pattern_is_a_usual_regular_expression(pattern: str, refused: bool) -> None:
    source = KAFKA.replace("topics: a", f"topic-pattern: '{pattern}'")
    if not refused:
        assert read(source).spec.source.type == "kafka"
        return
    with pytest.raises(SpecError, match="topic-pattern"):
        read(source)


@together(
    "tables, pattern, said",
    [
        (r"crm.\.*", "shop.users", "shop.users is not captured, by `tables`"),
        ("crm.users, crm.items", "crm.user", "crm.user is not captured, by `tables` (did you mean `crm.users`?)"),
        ("crm.users", r"crm.u\.*_x", r"`crm.u\.*_x` matches none of the tables in `tables` (there is: crm.users)"),
        ("crm.users, crm.items", "crm.items, crm.users", ""),
        (r"crm.\.*", "CRM.Users", ""),
    ],
)
def test_a_rule_that_can_match_no_captured_table_is_told(tables: str, pattern: str, said: str) -> None:
    rule = f"transform:\n  - source-table: '{pattern}'\n    mask: {{email: REDACT}}\n"
    found = read(tables=tables, rest=rule)
    assert [str(each) for each in found.warnings] == (
        [f"p.yaml:4:19: warning: transform[0].source-table: {said}"] if said else []
    )


def test_an_excluded_table_is_not_captured_and_an_exclusion_leaves_something_out() -> None:
    rule = "route: [{source-table: crm.users, sink-table: a.b}]\n"
    told = [str(each) for each in read(more=", tables.exclude: 'crm.users, shop.x'", rest=rule).warnings]
    assert len(told) == 2
    assert "`shop.x` excludes nothing" in told[0]
    assert "route[0].source-table: crm.users is not captured" in told[1]


THERE = [TableId("crm", "users"), TableId("crm", "items")]
RULES = """route:
  - {source-table: 'crm.users, crm.user', sink-table: ods.users}
transform:
  - {source-table: 'crm.us\\.*', mask: {email: REDACT}}
  - {source-table: 'crm.u_\\.*', filter: a > 1}
pipeline: {unmatched-patterns: HOW}
"""


def test_what_matches_no_table_is_refused_with_its_place() -> None:
    spec = read(more=", scan.snapshot.filters: {crm.itens: a > 1}", rest=RULES.replace("HOW", "FAIL")).spec
    with pytest.raises(SpecError) as caught:
        check_patterns(spec, compile_spec(spec).routes, THERE, complete=True)
    assert [(each.line, each.path, each.message) for each in caught.value.problems] == [
        (1, "source.scan.snapshot.filters", "no table matches `crm.itens`"),
        (4, "route[0].source-table", "no table matches `crm.user`"),
        (7, "transform[1].source-table", r"no table matches `crm.u_\.*`"),
    ]
    assert "did you mean `crm.items`?" in caught.value.problems[0].hint


@pytest.mark.parametrize(("how", "complete"), [("warn", True), ("fail", False)])
def test_it_is_let_be_by_option_and_where_the_source_does_not_know_all_tables(how: str, complete: bool) -> None:
    spec = read(rest=RULES.replace("HOW", how)).spec
    told = check_patterns(spec, compile_spec(spec).routes, THERE, complete=complete)
    assert [each.path for each in told] == ["route[0].source-table", "transform[1].source-table"]


def test_patterns_of_runs_before_are_not_refused_when_their_tables_are_gone() -> None:
    spec = read(rest=RULES.replace("HOW", "fail")).spec
    known = [each.name for each in spec.patterns]
    assert check_patterns(spec, compile_spec(spec).routes, [], complete=True, known=known) == []
    others = [name for name in known if not name.endswith("crm.user")]
    with pytest.raises(SpecError, match=r"no table matches `crm\.user`"):
        check_patterns(spec, compile_spec(spec).routes, THERE, complete=True, known=others)


def test_a_pattern_of_the_sink_is_compared_with_tables_behind_routes() -> None:
    sink = KAFKA_SINK.replace("MORE", ", sink.tableId-to-topic.mapping: 'ods.users:u;crm.users:v'")
    routes = "route: [{source-table: crm.users, sink-table: ods.users}]\n"
    spec = read(sink=sink, rest=routes).spec
    with pytest.raises(SpecError) as caught:
        check_patterns(spec, compile_spec(spec).routes, THERE, complete=True)
    assert [each.message for each in caught.value.problems] == ["no table matches `crm.users`"]
