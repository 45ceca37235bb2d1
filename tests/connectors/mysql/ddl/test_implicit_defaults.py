"""What MySQL and MariaDB give to rows already there when a column is added."""

from __future__ import annotations

from ddl_tables import catalog
from together import together

from connectors.mysql.ddl.defaults import default_text, fill_text
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.statements import Default, DefaultKind


@together(
    "type_, text",
    [
        ("json", "null"),
        ("inet4", "0.0.0.0"),
        ("inet6", "::"),
        ("uuid", "00000000-0000-0000-0000-000000000000"),
        ("varchar", ""),
        ("int", "0"),
    ],
)
def test_rows_already_there_get_the_servers_implicit_default(type_: str, text: str) -> None:
    assert fill_text(MySqlColumn("c", type_, nullable=False)) == text


@together(
    "type_, default, fill",
    [
        ("DATE", "'0000-00-00'", None),
        ("DATE", "'0000-01-01'", None),
        ("DATETIME NOT NULL", "0", None),
        ("DATETIME(3)", "('2026-02-31')", None),
        ("TIMESTAMP NOT NULL", "0", None),
        ("DATE NOT NULL", "'2026-02-28'", "2026-02-28"),
    ],
)
def test_a_default_that_is_no_day_is_null_as_in_rows(type_: str, default: str, fill: str | None) -> None:
    one = catalog()
    one.apply("CREATE TABLE t (id INT PRIMARY KEY)", "shop")
    added = one.apply(f"ALTER TABLE t ADD c {type_} DEFAULT {default}", "shop")
    assert ([change.column.default for change in added.changes], added.delta.uncertain) == ([fill], {})


def test_defaults_may_have_all_65_digits() -> None:
    column = MySqlColumn("c", "decimal", length=65, scale=30)
    default = Default(DefaultKind.NUMBER, "9" * 35 + ".5")
    assert default_text(default, column, DdlDialect()) == "9" * 35 + ".5" + "0" * 29


@together(
    "type_, text, stored",
    [
        ("double", "1.25", "1.2"), ("double", "1.35", "1.4"), ("double", "-1.25", "-1.2"), ("float", "1.25", "1.2"),
        ("time", "1 10:00", "34:00:00.0"), ("time", "-1 2", "-26:00:00.0"), ("time", "10:11", "10:11:00.0"),
        ("time", "101112.5", "10:11:12.5"), ("time", "10:11.5", "10:11.5"), ("time", "10-11", "10-11"),
        ("time", "-0", "00:00:00.0"), ("decimal", "-0.04", "0.0"),
    ],
)  # fmt: skip
def test_a_default_is_what_servers_store(type_: str, text: str, stored: str) -> None:
    column = MySqlColumn("c", type_, length=10 if type_ != "time" else 1, scale=1 if type_ != "time" else None)
    assert default_text(Default(DefaultKind.STRING, text), column, DdlDialect()) == stored


@together(
    "length, number, bits",
    [(8, "2.5", 3), (8, "2.5e0", 2), (1, "0.5", 1), (64, "-1", 2**64 - 1), (64, "-1.5", 2**64 - 2), (8, "300", 255),
     (64, "1e30", 2**64 - 1)],
)  # fmt: skip
def test_a_number_is_the_bits_of_a_default(length: int, number: str, bits: int) -> None:
    column = MySqlColumn("c", "bit", length=length)
    assert default_text(Default(DefaultKind.NUMBER, number), column, DdlDialect()) == f"b'{bits:b}'"


NOT_TOLD = [
    ("TIME DEFAULT '10:11.5'", "a spelling of its own"),
    ("TIME(2) DEFAULT '-1:2:3.456'", "more digits than its type"),
    ("TIME DEFAULT 101112.5", "more digits than its type"),
    ("DATETIME DEFAULT '2026-01-01 10:00:00.9'", "more digits than its type"),
    ("DATETIME(3) DEFAULT ('2026-01-01 10:00:00.9999')", "more digits than its type"),
    ("DATE DEFAULT '2026-01-01 23:59:59'", "more digits than its type"),
    ("DATE DEFAULT '2026-01-01 00:00:00+05:00'", "more digits than its type"),
    ("DATE DEFAULT '2026-01-01T00:00:00-00:00'", "more digits than its type"),
    ("DATETIME DEFAULT '2026-01-01 10:00:00+05:00'", "a spelling of its own"),
    ("TIMESTAMP DEFAULT '2026-01-01 10:00:00'", "the session's time zone"),
    ("FLOAT DEFAULT 1.23456789", "fewer digits than it has"),
    ("FLOAT DEFAULT 1e39", "fewer digits than it has"),
    ("POINT NOT NULL", "an empty value of column c"),
    ("TIME DEFAULT '1 2'", "a spelling of its own"),
    ("INT DEFAULT x'31'", "a number in a spelling of its own"),
    ("INT DEFAULT 2.5e0", "a number in a spelling of its own"),
    ("DECIMAL(20,0) DEFAULT '9.007199254740993e15'", "a number in a spelling of its own"),
    ("YEAR DEFAULT 2.4", "a number in a spelling of its own"),
    ("YEAR DEFAULT '000'", "a number in a spelling of its own"),
    ("BIT(8) DEFAULT 2.5", "a number in a spelling of its own"),
    ("CHAR(5) DEFAULT 007", "a number in a spelling of its own"),
    ("VARCHAR(9) DEFAULT 1e2", "a number in a spelling of its own"),
    ("VARCHAR(9) DEFAULT -0", "a number in a spelling of its own"),
    ("VARBINARY(9) DEFAULT 1e2", "a number in a spelling of its own"),
    ("DOUBLE DEFAULT -0", "a number in a spelling of its own"),
    ("FLOAT DEFAULT '-0.0'", "a number in a spelling of its own"),
    ("BIT(64) DEFAULT -1", "a number in a spelling of its own"),
    ("INT DEFAULT DATE'2024-01-01'", "a number in a spelling of its own"),
    ("DOUBLE DEFAULT '1x'", "a number in a spelling of its own"),
    ("VARCHAR(20) DEFAULT TIME'010:00:00'", "the server computed column c"),
    ("VARCHAR(20) DEFAULT DATE'2020-1-1'", "the server computed column c"),
]
NO_VALUE = (
    "VARCHAR(4) DEFAULT ('abcdef')", "ENUM('q','r') DEFAULT (1)", "ENUM('0') DEFAULT -0", "SET('q','r') DEFAULT (1)",
    "SET('q','r') DEFAULT ('q,x')", "INT NOT NULL DEFAULT (NULL)", "INT UNSIGNED DEFAULT (-1)", "TINYINT DEFAULT (128)",
    "DECIMAL(4,2) DEFAULT (123.4)", "FLOAT(7,3) DEFAULT '12345'", "YEAR DEFAULT '7 '", "DOUBLE DEFAULT 1e400",
)  # fmt: skip
NOT_TOLD += [(definition, "the default of column c is no value of its type") for definition in NO_VALUE]
NOT_IN_EVERY_SINK = [
    ("BIT(12) DEFAULT b'101'", "BIT"),
    ("BIT(12) NOT NULL", "BIT"),
    ("VARBINARY(4) DEFAULT 'ab'", "VARBINARY"),
    ("VARBINARY(4) NOT NULL", "VARBINARY"),
    ("BINARY(4) DEFAULT 0x4142", "BINARY"),
    ("BLOB DEFAULT ('ab')", "BLOB"),
    ("JSON NOT NULL", "JSON"),
    (r"VARCHAR(9) DEFAULT 'a\\b'", "backslashes"),
    ("""VARCHAR(9) DEFAULT 'it''s "it"'""", "quotes"),
    ("""TEXT DEFAULT ('it''s "it"')""", "quotes"),
]
CERTAIN = (
    "INT DEFAULT 7", "VARCHAR(9) DEFAULT 'it''s'", "VARBINARY(4)", "BIT(12) NULL", "BIT(1) DEFAULT b'1'",
    "BIT DEFAULT b'1'", "TIME(2) DEFAULT '-1:2:3.450'", "TIME DEFAULT '838:59:59'", "DATETIME DEFAULT '2026-01-01'",
    "DATETIME(3) DEFAULT '2026-01-01 10:00:00.9'", "DATE DEFAULT '2026-01-01 00:00:00'", "FLOAT DEFAULT 1.5",
    "FLOAT DEFAULT 0.1", "DOUBLE DEFAULT 1.23456789", "JSON", "TIMESTAMP NULL", "DATE NOT NULL", "TIME NOT NULL",
    "DECIMAL(5,2) DEFAULT 1.005", "VARCHAR(9) DEFAULT 1.50", "VARCHAR(9) DEFAULT '007'", "YEAR DEFAULT 99",
    "INT DEFAULT 2.5", "INT DEFAULT 007", "DOUBLE DEFAULT 1e3", "DECIMAL(5,2) DEFAULT +.5", "BIGINT DEFAULT -7",
    "VARCHAR(20) DEFAULT DATE'2020-01-01'", "VARCHAR(9) DEFAULT -1", "POINT", "ENUM('q','r') DEFAULT ('R')",
    "SET('q','r') DEFAULT 'r,q'", "SET('q','r') DEFAULT ''", "TINYINT DEFAULT (-128)", "TEXT DEFAULT 'dropped'",
    f"DECIMAL(30,0) DEFAULT {'9' * 30}",
)  # fmt: skip


def added(definition: str, dialect: DdlDialect | None = None) -> tuple[str, tuple[str, ...]]:
    """Why a table is copied after a column was added, and what is said where none is."""
    sql = f"ALTER TABLE t ADD c {definition}"
    copying = catalog("CREATE TABLE t (a INT)", dialect=dialect)
    copying.copied_when_uncertain = lambda table: True
    uncertain = copying.apply(sql, "shop").delta.uncertain
    notices = catalog("CREATE TABLE t (a INT)", dialect=dialect).apply(sql, "shop").notices
    return "; ".join(found.reason for found in uncertain.values()), notices


@together("definition, reason", NOT_TOLD)
def test_a_default_that_servers_read_their_own_way_has_the_table_copied(definition: str, reason: str) -> None:
    copied, (notice,) = added(definition)
    assert reason in copied
    assert reason in notice


@together("definition", ["TEXT DEFAULT _utf8mb4'é'", "TEXT DEFAULT (_utf8mb4'é')", r"BLOB DEFAULT _utf8mb4'a\\b'"])
def test_mariadb_changes_a_text_with_a_character_set_before_it(definition: str) -> None:
    copied, (notice,) = added(definition, DdlDialect(mariadb=True))
    assert "the server computed column c" in copied
    assert "the server computed column c" in notice
    assert added("TEXT DEFAULT _utf8mb4'plain'", DdlDialect(mariadb=True)) == ("", ())


@together(
    "definition, fill",
    [("ENUM('3','2','1') DEFAULT 1", "3"), ("ENUM('x','1') DEFAULT 2", "1"), ("ENUM('x','1') DEFAULT '1'", "1"),
     ("ENUM('x','1') DEFAULT TRUE", "x"), ("SET('4','2','1') DEFAULT 4", "1"), ("SET('4','2','1') DEFAULT '4'", "4")],
)  # fmt: skip
def test_mariadb_reads_a_number_as_the_position_of_a_label(definition: str, fill: str) -> None:
    one = catalog("CREATE TABLE t (a INT)", dialect=DdlDialect(mariadb=True))
    added = one.apply(f"ALTER TABLE t ADD c {definition}", "shop")
    assert ([change.column.default for change in added.changes], added.delta.uncertain) == ([fill], {})


@together("definition, reason", NOT_IN_EVERY_SINK)
def test_a_default_that_a_sink_cannot_have_has_the_table_copied(definition: str, reason: str) -> None:
    copied, notices = added(definition)
    assert reason in copied
    assert notices == ()


@together("definition", CERTAIN)
def test_a_constant_that_every_sink_takes_copies_nothing(definition: str) -> None:
    assert added(definition) == ("", ())


@together("function", ["uuid()", "uuid_short()", "(uuid_short())", "rand() ", "NEXT VALUE FOR s"])
def test_a_computed_default_of_mariadb_has_the_table_copied(function: str) -> None:
    copied, _ = added(f"VARCHAR(40) DEFAULT {function}", DdlDialect.of("10.11.19-MariaDB"))
    assert "the server computed column c" in copied
