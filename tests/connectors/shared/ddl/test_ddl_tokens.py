"""The tokenizer: strings, names, numbers, comments that are executed and comments that are not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from together import together

from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.tokens import Token, TokenKind, Unreadable, tokenize

MYSQL = DdlDialect.of("9.7.4")
MARIADB = DdlDialect.of("10.11.19-MariaDB-0+deb12u1")


def tokens(sql: str, dialect: DdlDialect = MYSQL) -> list[Token]:
    return list(itertools.takewhile(lambda token: token.kind is not TokenKind.END, tokenize(sql, dialect)))


def texts(sql: str, dialect: DdlDialect = MYSQL) -> list[str]:
    return [token.text for token in tokens(sql, dialect)]


@together(
    "sql, text",
    [
        ("'it''s'", "it's"),
        (r"'a\'b'", "a'b"),
        (r"'\0\b\n\r\t\Z\\\q'", "\0\b\n\r\t\x1a\\q"),
        (r"'50\% \_'", r"50\% \_"),
        ('"double ""d"" \'s\'"', "double \"d\" 's'"),
        ("'-- no # comment /* here */'", "-- no # comment /* here */"),
        ("''", ""),
        ("'line\nbreak'", "line\nbreak"),
    ],
)
def test_a_string_gives_its_value(sql: str, text: str) -> None:
    assert [(token.kind, token.text) for token in tokens(sql)] == [(TokenKind.STRING, text)]


def test_without_backslash_escapes_a_backslash_is_a_character() -> None:
    dialect = MYSQL.with_mode(1 << 20)
    assert texts(r"'a\' 'b'", dialect) == ["a\\", "b"]


def test_ansi_quotes_make_a_name_of_a_double_quoted_word() -> None:
    assert [t.kind for t in tokens('"x"', MYSQL.with_mode(4))] == [TokenKind.QUOTED]
    assert [t.kind for t in tokens('"x"', MYSQL)] == [TokenKind.STRING]


@together(
    "sql, kind, text",
    [
        ("`a``b\\`", TokenKind.QUOTED, "a`b\\"),
        ("x'4D6d'", TokenKind.HEX, "4D6d"),
        ("X''", TokenKind.HEX, ""),
        ("0xfF", TokenKind.HEX, "fF"),
        ("b'0101'", TokenKind.BIT, "0101"),
        ("0b11", TokenKind.BIT, "11"),
        ("12", TokenKind.NUMBER, "12"),
        ("1.5", TokenKind.NUMBER, "1.5"),
        (".5", TokenKind.NUMBER, ".5"),
        ("1e-5", TokenKind.NUMBER, "1e-5"),
        ("0xZZ", TokenKind.NAME, "0xZZ"),
        ("2024_orders", TokenKind.NAME, "2024_orders"),
        ("größe", TokenKind.NAME, "größe"),
        ("a$b", TokenKind.NAME, "a$b"),
        ("@@session.sql_mode", TokenKind.VARIABLE, "@@session.sql_mode"),
    ],
)
def test_one_token(sql: str, kind: TokenKind, text: str) -> None:
    assert [(token.kind, token.text) for token in tokens(sql)] == [(kind, text)]


def test_after_a_dot_comes_a_name_even_of_digits() -> None:
    assert texts("db.2024") == ["db", ".", "2024"]
    assert [token.kind for token in tokens("`db`.1e5")][-1] is TokenKind.NAME


def test_comments_are_left_out() -> None:
    assert texts("a -- x\n b # y\n /* z * / */ c--1") == ["a", "b", "c", "-", "-", "1"]
    assert texts("a --") == ["a"]
    assert texts("a /*+ MAX_EXECUTION_TIME(5) */ b") == ["a", "b"]


@together(
    "sql, dialect, expected",
    [
        ("a /*! b */ c", MYSQL, "abc"),
        ("a /*!80013 b */ c", MYSQL, "abc"),
        ("a /*!080013 b */ c", MYSQL, "abc"),
        ("a /*!99999 b */ c", MYSQL, "ac"),
        ("a /*!80013 b /* x */ c */ d", MYSQL, "abcd"),
        ("a /*!99999 b /* x */ c */ d", MYSQL, "ad"),
        ("a /*M! b */ c", MYSQL, "ac"),
        ("a /*!50001 b*//*!50001 c*/", MYSQL, "abc"),
        ("a /*M! b */ c", MARIADB, "abc"),
        ("a /*M!100100 b */ c", MARIADB, "abc"),
        ("a /*M!999999 b */ c", MARIADB, "ac"),
        ("a /*!80013 b */ c", MARIADB, "ac"),
        ("a /*!50100 b */ c", MARIADB, "abc"),
        ("a /*!100100 b */ c", MARIADB, "abc"),
    ],
)
def test_a_versioned_comment_is_executed_by_the_servers_own_rule(sql: str, dialect: DdlDialect, expected: str) -> None:
    assert "".join(texts(sql, dialect)) == expected


@together("sql", ["'open", '"open', "`open", "/* open", "/*!80013 open", "'ends with \\'"])
def test_what_is_not_closed_is_unreadable(sql: str) -> None:
    with pytest.raises(Unreadable, match="not closed"):
        tokens(sql)


@given(st.text())
def test_a_quoted_string_reads_back(text: str) -> None:
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    assert [token.text for token in tokens(quoted)] == [text]


@given(st.text(alphabet="aé1._-'\"`/*!#\\ \n(),;=@xb"))
def test_any_text_gives_tokens_or_is_unreadable(sql: str) -> None:
    try:
        starts = [token.start for token in tokens(sql)]
    except Unreadable:
        return
    assert starts == sorted(starts)
    assert all(0 <= start < len(sql) for start in starts)
