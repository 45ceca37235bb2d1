"""Where the values of members are in JSON texts: the same as Python's own reader finds, whatever their lengths are."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from together import together

from connectors.kafka.formats.scan import Texts, Tree
from connectors.kafka.kernels import ABSENT, INTEGER, NULL, scan

_NAMES = ("a", "name", "a name of more than sixteen bytes", 'q"', "back\\", "x")
_TREE = Tree({"a": None, "name": {"x": None, "a": None}, "a name of more than sixteen bytes": None, "x": None})
_CHARACTERS = ["{", "}", "[", "]", '"', "\\", ",", ":", "\n", "u", "é", "\N{SNOWMAN}", " ", "7", "-"]


def _text(chance: random.Random) -> str:
    plain = chance.random() < 0.5
    length = chance.choice((0, 1, 7, 15, 16, 17, 31, 63, 64, 65, 130))
    return "".join(chance.choice("abc {}[],:0" if plain else _CHARACTERS) for _ in range(length))


def _value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 3 else 6)
    if kind < 2:
        return _text(chance)
    if kind == 6:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    if kind == 7:
        return {chance.choice(_NAMES): _value(chance, depth + 1) for _ in range(chance.randrange(6))}
    number = chance.randrange(10 ** chance.randrange(1, 40))
    return (None, chance.random() < 0.5, number, -number / 7)[kind - 2]


def _documents(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {name: _value(chance) for name in chance.sample(_NAMES, chance.randrange(len(_NAMES) + 1))} for _ in range(200)
    ]


@pytest.mark.parametrize("indent", [None, 1])
def test_values_are_found_where_pythons_reader_finds_them(indent: int | None) -> None:
    documents = _documents(1)
    texts = Texts.of([json.dumps(item, ensure_ascii=bool(number % 2), indent=indent).encode()
                      for number, item in enumerate(documents)])  # fmt: skip
    found = _TREE.scan(texts)
    assert not found.faults.any()
    for path in (("a",), ("name",), ("name", "x"), ("a name of more than sixteen bytes",), ("x",)):
        cells = found.cells(*path)
        for number, document in enumerate(documents):
            value: Any = document
            for name in path:
                value = value.get(name, ...) if isinstance(value, dict) else ...
            raw = cells.raw(number)
            if value is ...:
                assert cells.kinds[number] == ABSENT
            elif value is None:
                assert cells.kinds[number] == NULL
            else:
                assert json.loads(b'"' + raw + b'"' if isinstance(value, str) else raw) == value


def test_texts_that_end_anywhere_are_faults() -> None:
    document = json.dumps({"a": {"b": ["x" * 70, 'y"' * 20, {"c": 1.5}]}, "x": "z" * 20, "name": {"a": 12345}}).encode()
    found = _TREE.scan(Texts.of([document[:length] for length in range(len(document))]))
    assert (found.faults > 0).all()


@together("inside", ["{", "}", "\\\\", '\\"', "[]"])
def test_brackets_in_strings_do_not_end_an_object(inside: str) -> None:
    for size in range(140):
        text = ('{"k":"' + "x" * size + inside + '","l":[{}]}, {}').encode()
        texts = Texts.of([text])
        assert scan.value_end(texts.address, 0, len(text)) >> 4 == len(text) - 4


def test_several_threads_may_look_for_the_same_members() -> None:
    tree = Tree({"a": {"x": None, "y": None}, "b": {"x": None, "y": None}})
    inside = [Texts.of([b'{"%c":{"x":1,"y":2}}' % name] * 50_000) for name in b"ab"]
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(tree.scan, inside * 8):
            name, other = "ab" if (found.cells("a").kinds != ABSENT).all() else "ba"
            assert (found.cells(name, "y").kinds == INTEGER).all()
            assert (found.cells(other, "y").kinds == ABSENT).all()


@together(
    "name",
    [
        'a"b',
        "back\\slash",
        "aö",
        "\N{SNOWMAN}",
        "\U0001f600",
        "\n\t\r\b\f",
        "a/b",
        "\\u00f6",
        "",
        "\x00\x1f",
        "\\",
        '"',
    ],
)
def test_a_name_is_the_same_however_it_is_written(name: str) -> None:
    """RFC 8259, section 8.3: names are compared after their escapes are resolved."""
    everything = "".join(f"\\u{unit:04X}" for unit in _utf16(name))
    written = [
        json.dumps(name),
        json.dumps(name, ensure_ascii=False),
        f'"{everything}"',
        json.dumps(name).replace("/", "\\/"),
    ]
    others = [json.dumps(name + "x"), json.dumps("x" + name), f'"{everything}\\u0030"']
    tree = Tree({"first": None, name: {name: None}})
    for text in written:
        found = tree.scan(Texts.of([f'{{"first":0,{text}:{{{text} : 7}}}}'.encode(), f"{{{text}:null}}".encode()]))
        assert found.faults.tolist() == [0, 0]
        assert found.cells(name, name).raw(0) == b"7"
        assert found.cells(name).kinds[1] == NULL
        assert found.unknown[0] == -1
    for text in others:
        found = tree.scan(Texts.of([f"{{{text}:7}}".encode()]))
        assert found.cells(name).kinds[0] == ABSENT
        assert found.unknown[0] >= 0


def _utf16(text: str) -> list[int]:
    raw = text.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


@together("name", [r"\x", r"\u12", r"\ud800", r"\udc00", r"\ud800\u0041", r"\u00g0", r"\ud83d\n"])
def test_a_name_with_an_escape_that_is_none_is_no_json(name: str) -> None:
    found = Tree({"a": None}).scan(Texts.of([f'{{"a":1,"{name}":2}}'.encode()]))
    assert found.faults[0] > 0
