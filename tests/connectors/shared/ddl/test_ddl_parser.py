"""Statements to values: what matters is kept, what does not is stepped over, what is unknown is said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from together import together

from cdc.schema import Position, TableId
from connectors.shared.ddl import statements as ddl
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse

ORDERS = TableId("shop", "orders")
MARIADB = DdlDialect.of("11.4.2-MariaDB")


def one(sql: str, dialect: DdlDialect | None = None) -> ddl.Statement:
    (statement,) = parse(sql, database="shop", dialect=dialect)
    return statement


def test_create_table_keeps_columns_key_and_options() -> None:
    statement = one(
        "CREATE TABLE orders (id INT PRIMARY KEY, v DEC(5,2) DEFAULT 1.5 COMMENT 'v') COMMENT='o' CHARSET latin1"
    )
    assert statement == ddl.CreateTableStatement(
        ORDERS,
        (
            ddl.ColumnDefinition("id", ddl.TypeSpec("int"), primary_key=True),
            ddl.ColumnDefinition(
                "v",
                ddl.TypeSpec("decimal", 5, 2),
                default=ddl.Default(ddl.DefaultKind.NUMBER, "1.5"),
                comment="v",
            ),
        ),
        ("id",),
        options=ddl.TableOptions(charset="latin1", comment="o"),
    )


@together(
    "attributes",
    [
        "ENGINE_ATTRIBUTE '{}' SECONDARY_ENGINE_ATTRIBUTE = '{}'",
        "COLUMN_FORMAT FIXED STORAGE DISK",
        "/*!50633 COLUMN_FORMAT COMPRESSED WITH COMPRESSION_DICTIONARY `d` */ NOT NULL",
        "SRID 4326",
        "NOT SECONDARY",
        "COMPRESSED=zlib",
        "WITHOUT SYSTEM VERSIONING",
        "VISIBLE UNIQUE KEY",
        "REFERENCES x.y (a, b) MATCH FULL ON DELETE SET DEFAULT ON UPDATE NO ACTION",
        "CONSTRAINT CHECK (a > (1)) NOT ENFORCED",
        "date_format='iso'",
        "COLLATE utf8mb4_bin",
    ],
)
def test_attributes_that_say_nothing_about_rows_are_stepped_over(attributes: str) -> None:
    statement = one(f"ALTER TABLE orders ADD c TEXT {attributes} NOT NULL COMMENT 'x' FIRST", MARIADB)
    assert isinstance(statement, ddl.AlterTableStatement)
    (clause,) = statement.clauses
    assert isinstance(clause, ddl.AddColumnClause)
    assert (clause.column.nullable, clause.column.comment, clause.position) == (False, "x", Position(first=True))


def test_a_name_with_a_database_wins_over_the_default() -> None:
    assert one("DROP TABLE `a.b`.`c`, d") == ddl.DropTableStatement((TableId("a.b", "c"), TableId("shop", "d")))
    assert one("TRUNCATE .orders") == ddl.TruncateStatement(ORDERS)


def test_rename_keeps_its_pairs_in_order() -> None:
    pairs = ((ORDERS, TableId("shop", "_old")), (TableId("x", "_new"), ORDERS))
    assert one("RENAME TABLE orders TO _old, x._new TO orders") == ddl.RenameTableStatement(pairs)


def test_alter_keeps_clauses_in_order_and_steps_over_the_rest() -> None:
    statement = one(
        "ALTER TABLE orders ADD INDEX (a), DROP COLUMN b, ADD c INT AFTER a, ENGINE=InnoDB COMMENT 'x', "
        "RENAME INDEX i TO j, RENAME COLUMN d TO e, ALGORITHM=INPLACE, RENAME TO x.y"
    )
    assert isinstance(statement, ddl.AlterTableStatement)
    assert statement.clauses == (
        ddl.DropColumnClause("b"),
        ddl.AddColumnClause(ddl.ColumnDefinition("c", ddl.TypeSpec("int")), Position(after="a")),
        ddl.OptionsClause(ddl.TableOptions(comment="x")),
        ddl.RenameColumnClause("d", "e"),
        ddl.RenameToClause(TableId("x", "y")),
    )


@together(
    "sql, what, brings",
    [
        ("DROP PARTITION p0, p1", "DROP PARTITION", False),
        ("TRUNCATE PARTITION ALL", "TRUNCATE PARTITION", False),
        ("EXCHANGE PARTITION p WITH TABLE o WITHOUT VALIDATION", "EXCHANGE PARTITION", True),
        ("IMPORT TABLESPACE", "IMPORT TABLESPACE", True),
        ("DISCARD PARTITION p TABLESPACE", "DISCARD TABLESPACE", False),
        ("CONVERT TABLE o TO PARTITION p VALUES LESS THAN (5)", "CONVERT TABLE TO PARTITION", True),
        ("CONVERT PARTITION p TO TABLE o", "CONVERT PARTITION TO TABLE", False),
        ("ENGINE = BLACKHOLE", "ENGINE=BLACKHOLE", False),
        ("ENGINE blackhole", "ENGINE=BLACKHOLE", False),
    ],
)
def test_rows_that_move_without_row_events_are_told(sql: str, what: str, brings: bool) -> None:
    statement = one(f"ALTER TABLE orders {sql}", MARIADB)
    assert isinstance(statement, ddl.AlterTableStatement)
    (clause,) = statement.clauses
    assert isinstance(clause, ddl.MoveRowsClause)
    assert (clause.what, clause.brings) == (what, brings)


def test_what_the_server_logs_for_create_from_select_is_a_plain_create() -> None:
    statement = one("CREATE TABLE `orders` (\n  `id` int NOT NULL\n) START TRANSACTION")
    assert isinstance(statement, ddl.CreateTableStatement)
    assert not statement.select


@together(
    "sql",
    [
        "CREATE TABLE orders SELECT * FROM x",
        "CREATE TABLE orders (a INT) ENGINE=InnoDB AS SELECT 1 AS b",
        "CREATE TABLE orders (SELECT 1)",
        "CREATE TABLE orders (a INT) IGNORE (SELECT 1)",
        "CREATE TABLE orders (a INT) PARTITION BY HASH (a) PARTITIONS 2 AS SELECT 1 AS a",
        "CREATE TABLE orders AS WITH c AS (SELECT 1) SELECT * FROM c",
        "CREATE TABLE orders TABLE x",
    ],
)
def test_create_from_a_query_says_so(sql: str) -> None:
    statement = one(sql)
    assert isinstance(statement, ddl.CreateTableStatement)
    assert statement.select


@together(
    "sql, expected",
    [
        ("CREATE DATABASE d", ddl.CreateDatabaseStatement("d")),
        (
            "CREATE SCHEMA IF NOT EXISTS d DEFAULT CHARACTER SET = utf8",
            ddl.CreateDatabaseStatement("d", "utf8mb3", True),
        ),
        (
            "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 ENCRYPTION='N' */",
            ddl.CreateDatabaseStatement("d", "utf8mb4"),
        ),
        ("CREATE DATABASE d COLLATE latin1_bin", ddl.CreateDatabaseStatement("d", "latin1")),
        ("ALTER DATABASE d READ ONLY = 1", ddl.AlterDatabaseStatement("d")),
        ("ALTER SCHEMA CHARSET ascii", ddl.AlterDatabaseStatement("shop", "ascii")),
        ("ALTER DATABASE `#mysql50#d` UPGRADE DATA DIRECTORY NAME", ddl.AlterDatabaseStatement("#mysql50#d")),
        ("DROP DATABASE IF EXISTS d", ddl.DropDatabaseStatement("d")),
    ],
)
def test_databases(sql: str, expected: ddl.Statement) -> None:
    assert one(sql) == expected


@together(
    "sql, expected",
    [
        ("INSERT INTO orders VALUES (1)", ddl.StatementDml("insert", (ORDERS,))),
        ("insert low_priority ignore x.y set a = 1", ddl.StatementDml("insert", (TableId("x", "y"),))),
        ("REPLACE orders VALUES (1)", ddl.StatementDml("replace", (ORDERS,))),
        ("UPDATE orders, x SET a = 1", ddl.StatementDml("update")),
        ("DELETE a FROM a JOIN b", ddl.StatementDml("delete")),
        ("LOAD DATA INFILE 'x' INTO TABLE orders", ddl.StatementDml("load", (ORDERS,))),
        (
            "LOAD XML LOCAL INFILE 'INTO TABLE y' IGNORE INTO TABLE `x`.`y` (a)",
            ddl.StatementDml("load", (TableId("x", "y"),)),
        ),
        ("LOAD DATA INFILE 'x'", ddl.StatementDml("load")),
        ("SELECT `shop`.`f`(1)", ddl.StatementDml("select")),
        ("DO f()", ddl.StatementDml("do")),
        ("(SELECT f())", ddl.StatementDml("query")),
        ("WITH c AS (SELECT 1) UPDATE orders SET a = 1", ddl.StatementDml("with")),
    ],
)
def test_row_changes_in_statement_format_are_a_kind_of_their_own(sql: str, expected: ddl.Statement) -> None:
    assert one(sql) == expected


@together(
    "sql, kind",
    [
        ("", "comment"),
        ("# Dummy event replacing event type 160 that slave cannot handle.", "comment"),
        ("BEGIN", "begin"),
        ("XA START 'x'", "xa"),
        ("CREATE INDEX i ON orders (a)", "create index"),
        ("CREATE OR REPLACE DEFINER=`root`@`localhost` TRIGGER view BEFORE INSERT ON t SET @a = 1", "create definer"),
        ("CREATE TEMPORARY TABLE orders (a INT)", "create temporary"),
        ("DROP TEMPORARY TABLE IF EXISTS `shop`.`orders` /* generated by server */", "drop temporary"),
        ("DROP INDEX i ON orders", "drop index"),
        ("ALTER USER u IDENTIFIED BY 'x'", "alter user"),
        ("ALTER INSTANCE ROTATE INNODB MASTER KEY", "alter instance"),
        ("LOAD INDEX INTO CACHE orders", "load index"),
        ("SET PASSWORD FOR u = 'x'", "set"),
    ],
)
def test_known_statements_without_effect(sql: str, kind: str) -> None:
    assert one(sql) == ddl.Irrelevant(kind)


@together(
    "sql, reason, tables",
    [
        ("ALTER TABLE orders ADD a WIBBLE", "unknown column type 'WIBBLE'", (ORDERS,)),
        ("ALTER TABLE orders FROBNICATE a", "a clause of ALTER TABLE", (ORDERS,)),
        ("ALTER TABLE orders ADD a INT b", "a column attribute", (ORDERS,)),
        ("CREATE TABLE IF NOT EXISTS x.y (a INT", "expected", (TableId("x", "y"),)),
        ("CREATE TABLE orders (a INT) WIBBLE", "a table option", (ORDERS,)),
        ("CREATE TABLE orders (a INT DEFAULT 'x", "not closed", (ORDERS,)),
        ("CREATE FROB x", "something to create", ()),
        ("FROBNICATE TABLE orders", "a statement", (ORDERS,)),
        ("DROP TABLE orders PURGE", "the end of the statement", (ORDERS,)),
        ("RENAME COLUMN x", "TABLE", ()),
    ],
)
def test_what_is_not_understood_is_said_with_its_table(sql: str, reason: str, tables: tuple[TableId, ...]) -> None:
    statement = one(sql)
    assert isinstance(statement, ddl.Unparsed)
    assert reason in statement.reason
    assert statement.tables == tables


def test_a_trailing_semicolon_and_two_statements() -> None:
    assert one("TRUNCATE orders;") == ddl.TruncateStatement(ORDERS)
    assert parse("TRUNCATE x.y; TRUNCATE orders", database="shop") == (
        ddl.TruncateStatement(TableId("x", "y")),
        ddl.TruncateStatement(ORDERS),
    )


def test_only_the_first_words_of_a_long_insert_are_read() -> None:
    assert one("INSERT INTO orders VALUES ('" + "x" * 1000 + "'never closed") == ddl.StatementDml("insert", (ORDERS,))


@given(st.text(alphabet="CREATEALTRTABLE orders(a INT),'`\"/*!;.=_19#-\n"))
def test_any_text_gets_an_answer(sql: str) -> None:
    assert parse(sql, database="shop")


LONG_STATEMENTS = (
    "ALTER TABLE orders ADD COLUMN (a INT NOT NULL DEFAULT 'x,)' COMMENT 'c', b ENUM('p','q')), "
    "CHANGE c d DECIMAL(5,2) AFTER a, RENAME TO x.y",
    "CREATE TABLE orders (a INT /*!80000 INVISIBLE */, PRIMARY KEY (a)) COMMENT='x' PARTITION BY HASH (a)",
)


@given(st.integers(0, 200), st.sampled_from(LONG_STATEMENTS))
def test_a_statement_cut_anywhere_gets_an_answer(length: int, sql: str) -> None:
    assert len(parse(sql[:length], database="shop")) == 1


@together(
    "written, kind",
    [
        ("_utf8mb4'größe'", ddl.DefaultKind.STRING), ("_latin1'ab'", ddl.DefaultKind.STRING),
        ("_latin1'größe'", ddl.DefaultKind.EXPRESSION), ("_utf16'ab'", ddl.DefaultKind.EXPRESSION),
        ("_sjis'ab'", ddl.DefaultKind.EXPRESSION),
    ],
)  # fmt: skip
def test_a_default_of_another_character_set_is_no_text_that_the_statement_shows(
    written: str, kind: ddl.DefaultKind
) -> None:
    statement = one(f"ALTER TABLE t ADD c VARCHAR(9) DEFAULT {written}")
    assert isinstance(statement, ddl.AlterTableStatement)
    (clause,) = statement.clauses
    assert isinstance(clause, ddl.AddColumnClause)
    assert clause.column.default is not None
    assert clause.column.default.kind is kind
