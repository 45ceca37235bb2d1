"""What a projection and a filter may look like, and where mistakes stand in the file."""

from __future__ import annotations

import pytest
from together import together
from transform_rules import SCHEMA, applied, compiled, rule, texts_in

from cdc.errors import SpecError
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import Item, Mistake, Span, Star

ROWS = [("+I", {"id": 1, "n": 2, "s": "a"})]


def names(projection: str) -> list[str]:
    return list(compiled(projection=projection).schema.names)


def test_a_star_stands_for_all_columns_wherever_it_is() -> None:
    every = list(SCHEMA.names)
    assert names("*") == names(r"\*") == every
    assert names("n + 1 AS m, *") == ["m", *every]
    assert names(r"\*, n + 1 AS m,") == [*every, "m"]
    assert names(r"n + 1 AS m, \*, 'x' AS k") == ["m", *every, "k"]


def test_a_later_column_of_the_same_name_takes_the_place_of_the_earlier() -> None:
    made = compiled(projection=r"\*, n + 1 AS S")
    assert list(made.schema.names) == [name if name != "s" else "S" for name in SCHEMA.names]
    assert applied(made, ROWS)[0][1]["S"] == 3


def test_a_computed_column_before_the_star_stays_where_it_is() -> None:
    assert names("n + 1 AS s, *")[0] == "s"
    assert len(names("n + 1 AS s, *")) == len(SCHEMA.names)


@together("projection", ["id, n m", "id, n AS m", "id, n AS `m`", 'id, n AS "m"', "id,\n  n -- why\n  AS m,"])
def test_an_alias_in_every_spelling(projection: str) -> None:
    assert names(projection) == ["id", "m"]


def test_columns_are_found_in_any_case_and_keep_their_own() -> None:
    assert names("ID, N") == ["id", "n"]


def test_an_empty_projection_is_a_star() -> None:
    assert rule(projection=" ").projection.items == (Star(Span(0, 0)),)  # type: ignore[union-attr]


def test_commas_and_brackets_inside_text_and_comments_separate_nothing() -> None:
    parsed = rule(projection="id, 'a,(b' || `s` AS x /* , ( */, n -- ,\n, d")
    assert [item.name for item in parsed.projection.items if isinstance(item, Item)] == ["", "x", "", ""]  # type: ignore[union-attr]


STYLES = """\
transform:
  - projection: id, nope AS a
    filter: "n > 0 AND \\"nope\\" = 1"
  - projection: |
      id,
        nope AS a
  - projection: >-
      id,
      nope AS a
  - filter: 'v = ''it'' AND nope = 1'
  - projection: id,
      nope AS a
  - filter: "v = '\\u00e9' AND nope = 1"
"""


def test_a_mistake_is_at_its_place_in_every_style_of_yaml() -> None:
    lines = STYLES.splitlines()
    for number, keys in enumerate(texts_in(STYLES, "p.yaml")):
        for sql in keys.values():
            assert isinstance(sql, SqlText)
            problem = sql.problem(Mistake(Span(sql.text.index("nope"), 0), "m"))
            assert lines[problem.line - 1][problem.column - 1 :].startswith("nope"), (number, problem)
            assert problem.path.startswith(f"transform[{number}].")


def test_text_that_does_not_stand_in_the_file_is_placed_at_the_start_of_its_value() -> None:
    document = "filter: n > ${LIMIT}"
    sql = SqlText.in_file("n > 5 AND x", file="p", path="filter", source=document, line=1, column=9)
    assert sql.place(10) == (1, 9)


def test_all_problems_of_a_rule_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        rule(projection="id, UPPR(s) AS a, 1 + 2", filter="n >", mask={"s": "X"}, converter="Y", table_options="q")
    assert len(caught.value.problems) == 6
