from __future__ import annotations

from typing import Any

from together import together

from cdc.spec import tree
from cdc.spec.reader import MOST_NODES, read, typed
from cdc.spec.tree import Mapping, Scalar

FILES = {"pw.txt": "from file\n", "crlf.txt": "windows\r\n", "two.txt": "a\n\n"}


def load(text: str, **env: str) -> Any:
    def read_file(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    root, problems = read("p.yaml", text.encode(), env=env, read_file=read_file)
    assert problems == []
    assert root is not None
    return tree.plain(root)


@together(
    "text, value",
    [
        ("true", True), ("True", True), ("FALSE", False), ("yes", "yes"), ("on", "on"), ("y", "y"), ("tRuE", "tRuE"),
        ("null", None), ("~", None), ("", None), ("Null", None), ("nil", "nil"),
        ("0", 0), ("-7", -7), ("+7", 7), ("010", "010"), ("0x1F", "0x1F"), ("0o17", "0o17"), ("1_000", "1_000"),
        ("12:30:45", "12:30:45"), ("2026-11-21", "2026-11-21"), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0),
        (".inf", ".inf"), (".nan", ".nan"), ("007.5", "007.5"), ("９", "９"), ("-", "-"),
    ],
)  # fmt: skip
def test_plain_scalars_hold_no_surprise(text: str, value: object) -> None:
    result = typed(text)
    assert result == value
    assert type(result) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert load("a: '1'\nb: \"true\"\nc: !!str 5\nd: |\n  12\n") == {"a": "1", "b": "true", "c": "5", "d": "12\n"}


def test_every_value_knows_its_line_and_column() -> None:
    root, _ = read("p.yaml", b"a:\n  - x\n  - bb: 1\n", env={}, read_file=str)
    assert isinstance(root, Mapping)
    assert tree.mark_of(root, ("a", 1, "bb")) == tree.Mark(3, 9)
    assert tree.mark_of(root, ("a", 1, "bb"), key=True) == tree.Mark(3, 5)
    assert tree.mark_of(root, ("a", 1, "missing")) == tree.Mark(3, 5)
    assert tree.mark_of(root, ("missing",)) == tree.Mark(1, 1)


def test_a_byte_order_mark_is_skipped() -> None:
    root, problems = read("p.yaml", "\ufeffa: 1\n".encode(), env={}, read_file=str)
    assert problems == []
    assert root is not None
    assert tree.plain(root) == {"a": 1}


def test_characters_that_json_writes_as_two_halves_are_whole() -> None:
    assert load('{"a": "\\ud83d\\ude00!"}') == {"a": "\U0001f600!"}
    root, problems = read("p.yaml", b'a: "\\ud83d"', env={}, read_file=str)
    assert [problem.message for problem in problems] == ["half of a surrogate pair"]
    assert isinstance(root, Mapping)
    assert root.items["a"].broken


def test_aliases_stand_for_whole_values() -> None:
    assert load("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_a_bomb_of_aliases_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    root, problems = read("p.yaml", "\n".join(lines).encode(), env={}, read_file=str)
    assert root is not None
    assert f"more than {MOST_NODES} values" in problems[0].message


def test_variables_and_files_are_put_in() -> None:
    text = "a: ${X}\nb: pre-${X}-${Y}\nc: ${file:pw.txt}\nd: '${file: crlf.txt }'\ne: ${file:two.txt}\n"
    assert load(text, X="1", Y="${X}") == {
        "a": "1", "b": "pre-1-${X}", "c": "from file", "d": "windows", "e": "a\n"
    }  # fmt: skip


def test_two_dollars_escape() -> None:
    assert load("a: $${X}\nb: $X\nc: cost $5\n") == {"a": "${X}", "b": "$X", "c": "cost $5"}


def test_what_was_put_in_does_not_show() -> None:
    root, _ = read("p.yaml", b"a: ${X}\n", env={"X": "secret-text"}, read_file=str)
    assert isinstance(root, Mapping)
    value = root.items["a"]
    assert isinstance(value, Scalar)
    assert value.text == "secret-text"
    assert value.substituted
    assert "secret-text" not in repr(root)


def test_keys_are_not_substituted() -> None:
    assert load("${X}: 1\n", X="y") == {"${X}": 1}
