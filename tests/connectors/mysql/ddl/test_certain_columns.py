"""Which new definitions of a column leave the values of rows already there certain."""

from __future__ import annotations

import pytest
from together import together

from cdc.schema import TableId
from connectors.mysql.ddl.catalog import DdlResult, TableDefinitions
from connectors.mysql.ddl.certain import uncertain_column
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.dialect import DdlDialect

MARIADB = DdlDialect(mariadb=True)
KEEPS_ZEROS = 1 << 19
"""The sql_mode NO_AUTO_VALUE_ON_ZERO."""


def column(kind: str, length: int | None = None, scale: int | None = None, charset: str | None = None) -> MySqlColumn:
    return MySqlColumn("c", kind, length, scale, charset=charset)


@together("strict", [True, False])
@together(
    "old, new, certain",
    [
        (column("float"), column("float", 5, 2), False),
        (column("double"), column("double", 5, 2), False),
        (column("float", 7, 4), column("float", 7, 2), False),
        (column("float", 5, 2), column("float", 5, 2), True),
        (column("float", 5, 2), column("float"), True),
        (column("float"), column("double"), True),
    ],
)
def test_any_session_rounds_to_new_digits(old: MySqlColumn, new: MySqlColumn, certain: bool, strict: bool) -> None:
    assert (uncertain_column(old, new, strict=strict) == "") == certain


@together("strict", [True, False])
@together("other", [column("varbinary", 300), column("binary", 3), column("blob")])
def test_bits_are_a_number_and_its_digits_become_bytes(other: MySqlColumn, strict: bool) -> None:
    bits = column("bit", 20)
    assert uncertain_column(bits, other, strict=strict)
    assert uncertain_column(other, bits, strict=strict)


@together(
    "old, new, certain",
    [
        (column("mediumblob"), column("tinyblob"), False),
        (column("varchar", 63, charset="utf8mb4"), column("tinytext", charset="utf8mb4"), True),
        (column("varbinary", 300), column("tinyblob"), False),
        (column("tinytext", charset="utf8mb4"), column("text", charset="utf8mb4"), True),
        (column("varchar", 9, charset="latin1"), column("text", charset="latin1"), True),
        (column("int"), column("varchar", 10, charset="latin1"), False),
        (column("int"), column("varchar", 11, charset="latin1"), True),
        (column("bigint"), column("decimal", 20, 2), False),
        (column("bigint"), column("decimal", 21, 2), True),
        (column("decimal", 9, 2), MySqlColumn("c", "decimal", 9, 2, unsigned=True), False),
        (column("float"), MySqlColumn("c", "double", unsigned=True), False),
        (column("bigint"), MySqlColumn("c", "double", unsigned=True), False),
        (MySqlColumn("c", "double", unsigned=True), column("double"), True),
        (column("int"), column("mediumint"), False),
        (column("mediumint"), MySqlColumn("c", "mediumint", unsigned=True), False),
        (MySqlColumn("c", "bigint", unsigned=True), MySqlColumn("c", "mediumint", unsigned=True), False),
        (MySqlColumn("c", "smallint", unsigned=True), MySqlColumn("c", "mediumint", unsigned=True), True),
        (MySqlColumn("c", "smallint", unsigned=True), column("mediumint"), True),
        (column("decimal", 5, 2), column("char", 6, charset="latin1"), False),
        (column("decimal", 5, 2), column("varchar", 7, charset="latin1"), True),
        (column("decimal", 30, 30), column("varchar", 32, charset="latin1"), False),
    ],
)
def test_only_a_strict_session_refuses_to_cut(old: MySqlColumn, new: MySqlColumn, certain: bool) -> None:
    assert (uncertain_column(old, new, strict=False) == "") == certain
    assert uncertain_column(old, new, strict=True) == ""


@together("strict", [True, False])
@together(
    "old, new, certain",
    [
        (column("text", charset="utf8mb4"), column("tinytext", charset="utf8mb4"), False),
        (column("varchar", 64, charset="utf8mb4"), column("tinytext", charset="utf8mb4"), False),
        (column("text", charset="utf8mb4"), column("varchar", 9, charset="utf8mb4"), False),
        (column("varchar", 9, charset="utf8mb3"), column("varchar", 8, charset="utf8mb4"), False),
        (column("varchar", 9, charset="utf8mb4"), column("varchar", 8, charset="utf8mb4"), None),
        (column("varbinary", 9), column("varbinary", 8), None),
        (column("text", charset="latin1"), column("text", charset="utf8mb4"), False),
        (column("varchar", 70, charset="latin1"), column("tinytext", charset="utf8mb4"), False),
        (column("varchar", 60, charset="latin1"), column("tinytext", charset="utf8mb4"), True),
        (column("text", charset="utf8mb3"), column("text", charset="utf8mb4"), True),
    ],
)
def test_blanks_beyond_the_length_of_a_converted_text_are_cut_in_any_mode(
    old: MySqlColumn, new: MySqlColumn, certain: bool | None, strict: bool
) -> None:
    """None: where a strict session refuses them, too."""
    assert (uncertain_column(old, new, strict=strict) == "") == (strict if certain is None else certain)


@together("new, certain", [("utf8mb3", True), ("ucs2", True), ("latin1", False), ("gbk", False)])
@together("old", ["utf8mb4", "utf16", "gb18030"])
@together("strict", [True, False])
def test_a_strict_session_refuses_letters_beyond_the_basic_plane(
    old: str, new: str, certain: bool, strict: bool
) -> None:
    """Of other character sets some letters come back as others."""
    text = column("varchar", 9, charset=old), column("varchar", 9, charset=new)
    assert (uncertain_column(*text, strict=strict) == "") == (certain and strict)
    labels = MySqlColumn("c", "enum", labels=("\U0001f600",), charset=old)
    assert uncertain_column(labels, text[1], strict=strict)


@together("before, after, mode, zone, certain", [
    ("CHAR(9)", "VARCHAR(9)", 1 << 31, "", False), ("CHAR(9)", "VARCHAR(9)", 1 << 21, "", True),
    ("CHAR(9)", "CHAR(19)", 1 << 31, "", True), ("TIMESTAMP", "TIMESTAMP(3)", 0, "SYSTEM", False),
    ("TIMESTAMP", "TIMESTAMP(3)", 0, "", False), ("TIMESTAMP", "TIMESTAMP(3)", 0, "+05:00", True),
    ("TIMESTAMP(3)", "TIMESTAMP(3) DEFAULT 0", 0, "SYSTEM", True), ("DATETIME", "DATETIME(3)", 0, "SYSTEM", True),
    ("VARCHAR(9) CHARACTER SET ascii", "VARCHAR(9) CHARACTER SET swe7", 0, "", False),
    ("VARCHAR(9) CHARACTER SET ascii", "VARCHAR(9) CHARACTER SET latin1", 0, "", True),
])  # fmt: skip
def test_settings_of_the_session_change_values_on_the_way(
    before: str, after: str, mode: int, zone: str, certain: bool
) -> None:
    """CHAR that is filled up with spaces; on MySQL times in an hour that a time zone has twice."""
    for mariadb in (False, True):
        one = TableDefinitions(
            captures=lambda table: True, dialect=DdlDialect(mariadb=mariadb), copied_when_uncertain=lambda table: True
        )
        one.apply(f"CREATE TABLE t (id INT PRIMARY KEY, a {before} NULL) CHARACTER SET utf8mb4", "shop")
        found = one.apply(f"ALTER TABLE t MODIFY a {after} NULL", "shop", sql_mode=mode, time_zone=zone)
        assert bool(found.delta.uncertain) != (certain or (mariadb and before == "TIMESTAMP"))


@pytest.mark.parametrize("strict", [True, False])
def test_nulls_of_a_timestamp_become_the_time_of_the_statement(strict: bool) -> None:
    old = MySqlColumn("c", "timestamp", 3)
    assert uncertain_column(old, MySqlColumn("c", "timestamp", 6, nullable=False), strict=strict)
    assert uncertain_column(old, MySqlColumn("c", "timestamp", 6), strict=strict) == ""


TINYINT1 = column("tinyint", 1)


@together("new", [column("int"), column("tinyint"), column("varchar", 9, charset="utf8mb4")])
def test_a_boolean_of_the_sink_does_not_tell_the_number_that_it_is(new: MySqlColumn) -> None:
    assert uncertain_column(TINYINT1, new, strict=True, tinyint1_as_boolean=True) != ""
    assert uncertain_column(new, TINYINT1, strict=True, tinyint1_as_boolean=True) != ""
    assert uncertain_column(TINYINT1, TINYINT1, strict=True, tinyint1_as_boolean=True) == ""
    assert uncertain_column(TINYINT1, new, strict=True) == ""


COMPUTED = "id INT PRIMARY KEY, a INT, t VARCHAR(9), d DECIMAL(5,2), v INT AS (a * 2) VIRTUAL, s TEXT AS (d) STORED"


@together("clauses, computed", [
    ("MODIFY v INT AS (a * 3) VIRTUAL", "vs"), ("CHANGE s r TEXT AS (t) STORED", "vr"), ("MODIFY a INT AS (3)", "avs"),
    ("MODIFY d DECIMAL(9,4)", "vs"), ("MODIFY a INT UNSIGNED", "vs"), ("MODIFY t VARCHAR(9) COLLATE utf8mb4_bin", "vs"),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "vs"), ("MODIFY a CHAR(5)", "vs"),
    ("CHANGE d e DOUBLE", "vs"), ("MODIFY s TEXT", ""), ("MODIFY a BIGINT", ""), ("MODIFY t TEXT", ""),
    ("MODIFY d DECIMAL(9,2)", ""), ("RENAME COLUMN a TO b", ""), ("MODIFY a INT COMMENT 'x' FIRST", ""),
    ("DROP v, DROP s, MODIFY d DECIMAL(9,4)", ""), ("ADD c INT DEFAULT 4", ""),
])  # fmt: skip
def test_what_the_server_recomputes_is_copied_or_told(clauses: str, computed: str) -> None:
    """The log has no row of it. Nothing is copied where only integers and texts got more room."""

    def applied(*, copies: bool) -> DdlResult:
        one = TableDefinitions(captures=lambda table: True, copied_when_uncertain=lambda table: copies)
        one.apply(f"CREATE TABLE t ({COMPUTED}) CHARACTER SET utf8mb4", "shop")
        return one.apply(f"ALTER TABLE t {clauses}", "shop", sql_mode=1 << 21)

    assert bool(applied(copies=True).delta.uncertain) == bool(computed)
    told = " ".join(notice for notice in applied(copies=False).notices if "computed column" in notice)
    assert {name for name in "avsr" if f"computed column {name} " in told} == set(computed)


@together("dialect, charset, computed", [
    (MARIADB, "utf16", True), (MARIADB, "utf8mb4", False), (DdlDialect(), "utf16", False),
])  # fmt: skip
def test_literals_of_expressions_have_the_character_set_of_mariadbs_table(
    dialect: DdlDialect, charset: str, computed: bool
) -> None:
    """`CONCAT('<', code)` of a VARBINARY; MySQL writes the character set into the expression."""
    one = TableDefinitions(captures=lambda table: True, dialect=dialect, copied_when_uncertain=lambda table: True)
    one.apply(f"CREATE TABLE t ({COMPUTED}) CHARACTER SET utf8mb4", "shop")
    altered = one.apply(f"ALTER TABLE t DEFAULT CHARACTER SET {charset}", "shop", sql_mode=1 << 21)
    assert ("its literals" in str(altered.delta.uncertain)) == computed


@together("before, mode, told", [
    ("INT PRIMARY KEY", 0, True), ("INT AUTO_INCREMENT KEY", 0, False), ("SERIAL KEY", 0, False),
    ("INT PRIMARY KEY", KEEPS_ZEROS, False), ("INT UNIQUE", KEEPS_ZEROS, True),
])  # fmt: skip
def test_rows_that_the_server_numbers_are_copied_or_told(before: str, mode: int, told: bool) -> None:
    """Those with 0 or NULL get a number where a column becomes AUTO_INCREMENT, not where it was that already. Dumps of
    phpMyAdmin do so last of all, in a mode in which 0 stays."""

    def applied(*, copies: bool) -> DdlResult:
        one = TableDefinitions(captures=lambda table: True, copied_when_uncertain=lambda table: copies)
        one.apply(f"CREATE TABLE t (id {before})", "shop")
        return one.apply("ALTER TABLE t MODIFY id BIGINT UNSIGNED AUTO_INCREMENT", "shop", sql_mode=1 << 21 | mode)

    assert ("numbered" in str(applied(copies=True).delta.uncertain)) == told
    assert any("numbered rows whose column id had 0 or NULL" in each for each in applied(copies=False).notices) == told


@pytest.mark.parametrize("copies", [True, False])
def test_a_table_made_of_a_partition_is_there_and_its_rows_are_copied_or_told(copies: bool) -> None:
    one = TableDefinitions(captures=lambda table: True, dialect=MARIADB, copied_when_uncertain=lambda table: copies)
    one.apply("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id)", "shop")
    made = one.apply("ALTER TABLE t CONVERT PARTITION q TO TABLE u", "shop")
    assert [type(change).__name__ for change in made.changes] == ["CreateTable"]
    assert set(made.delta.uncertain) == ({TableId("shop", "t"), TableId("shop", "u")} if copies else set())
    assert [notice.partition(":")[0] for notice in made.notices] == ([] if copies else ["shop.u", "shop.t"])
    ended = one.apply("ALTER TABLE u CONVERT TABLE t TO PARTITION q VALUES LESS THAN (5)", "shop") if copies else None
    assert ended is None or [str(change.table) for change in ended.changes] == ["shop.t"]


def test_it_is_copied_or_told() -> None:
    def applied(*, copies: bool) -> DdlResult:
        one = TableDefinitions(
            captures=lambda table: True, tinyint1_as_boolean=True, copied_when_uncertain=lambda table: copies
        )
        one.apply("CREATE TABLE t (id INT PRIMARY KEY, a TINYINT(1))", "shop")
        return one.apply("ALTER TABLE t MODIFY a INT", "shop")

    assert list(applied(copies=True).delta.uncertain) == [TableId("shop", "t")]
    assert "values of column a are converted to INT" in applied(copies=False).notices[0]


@together("before, after, strict", [
    ("INT NULL", "INT NOT NULL", False), ("VARCHAR(20) NULL", "VARCHAR(10) NOT NULL", False),
    ("TEXT", "TINYTEXT", False), ("DECIMAL(9,2)", "DECIMAL(9,2) UNSIGNED", False), ("FLOAT", "FLOAT UNSIGNED", False),
    ("INT", "VARCHAR(3)", False), ("INT ZEROFILL", "VARCHAR(20)", True), ("FLOAT", "FLOAT(5,2)", True),
    ("BIT(3)", "BIT(12)", True), ("DATETIME(3)", "DATETIME", True), ("VARCHAR(30)", "TIME(2)", True),
])  # fmt: skip
@together("clause", ["MODIFY a {}", "CHANGE a b {}"])
def test_what_no_sink_can_see_is_told_where_nothing_is_copied(
    before: str, after: str, strict: bool, clause: str
) -> None:
    one = TableDefinitions(captures=lambda table: True)
    one.apply(f"CREATE TABLE t (id INT PRIMARY KEY, a {before})", "shop")
    mode = 1 << 21 if strict else 0  # STRICT_TRANS_TABLES
    [notice] = one.apply(f"ALTER TABLE t {clause.format(after)}", "shop", sql_mode=mode).notices
    assert notice.startswith("shop.t: ")
    assert "column a" in notice


@together("clause, lost", [
    ("ADD k INT AUTO_INCREMENT PRIMARY KEY", True), ("ADD k INT AUTO_INCREMENT UNIQUE", False),
])  # fmt: skip
def test_rows_that_no_change_finds_are_told_of_where_nothing_is_copied(clause: str, lost: bool) -> None:
    one = TableDefinitions(captures=lambda table: True)
    one.apply("CREATE TABLE t (a INT)", "shop")
    [notice] = one.apply(f"ALTER TABLE t {clause}", "shop").notices
    assert ("changes of such rows do not find them" in notice) == lost


@together("after, told", [("VARCHAR(20)", True), ("INT", True), ("DATETIME", False)])
def test_dates_that_no_calendar_has_are_told_of_where_they_become_something_else(after: str, told: bool) -> None:
    one = TableDefinitions(captures=lambda table: True)
    one.apply("CREATE TABLE t (a DATE)", "shop")
    notices = one.apply(f"ALTER TABLE t MODIFY a {after}", "shop").notices
    assert [notice for notice in notices if "the log does not tell what rows already there have" in notice] == (
        [*notices] if told else []
    )
    assert bool(notices) == told


@together("clause", ["MODIFY id BIGINT", "CHANGE ID Id BIGINT", "MODIFY id INT COMMENT 'x'"])
def test_a_key_has_no_nulls_to_become_other_values(clause: str) -> None:
    one = TableDefinitions(captures=lambda table: True, copied_when_uncertain=lambda table: True)
    one.apply("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "shop")
    assert not one.apply(f"ALTER TABLE t {clause}", "shop", sql_mode=0).delta.uncertain
    assert one.apply("ALTER TABLE t MODIFY a INT NOT NULL", "shop", sql_mode=0).delta.uncertain
