"""Partial JSON updates: what the log holds with PARTIAL_JSON, applied, is what the server shows."""

from __future__ import annotations

import json
import random

import pytest
from json_binary import encode, random_document, variable_length
from json_log import JsonTable
from together import together

from cdc.errors import CorruptLog
from cdc_services.server import MySqlServer
from connectors.mysql.rows.json_diff import Cell, DiffKind, apply_diffs_text, edit_tree, parse_path, read_diffs
from connectors.mysql.rows.json_value import decode, tree_text


def diff(operation: int, path: str, value: object = None) -> bytes:
    """One diff as the log has it; short lengths only."""
    out = bytes([operation, len(path.encode())]) + path.encode()
    document = encode(value)
    return out if operation == DiffKind.REMOVE else out + variable_length(len(document)) + document


@together(
    "path, legs",
    [
        ("$", ()),
        ("$.a[3].b", ("a", Cell(3), "b")),
        ('$."b c"."q\\"x\\\\"."\\u00e9"', ("b c", 'q"x\\', "é")),
        ("$[last][last-12]", (Cell(0, True), Cell(12, True))),
        ("$.ключ._$1", ("ключ", "_$1")),
        ('$ . a [ 1 ] [ last - 2 ] ."" ', ("a", Cell(1), Cell(2, True), "")),
    ],
)
def test_paths(path: str, legs: tuple[object, ...]) -> None:
    assert parse_path(path.encode()) == legs


@together("path", ["", "a", "$a", "$.", "$.*", "$[*]", "$**.a", "$[", "$[x]", '$."a', '$."\\q"', "$[-1]"])
def test_wrong_paths_are_corrupt(path: str) -> None:
    with pytest.raises(CorruptLog, match="path"):
        parse_path(path.encode())


@together(
    "before, diffs, after",
    [
        ({"a": 1}, b"", '{"a": 1}'),
        ({"a": 1, "bb": 2}, diff(1, "$.c", [1]), '{"a": 1, "c": [1], "bb": 2}'),
        ({"a": [1, 2, 3]}, diff(0, "$.a[last]", None), '{"a": [1, 2, null]}'),
        ({"a": [1, 2, 3]}, diff(2, "$.a[last-2]") + diff(2, "$.a[0]"), '{"a": [3]}'),
        ([1], diff(1, "$[0]", "x") + diff(1, "$[9]", 2.0) + diff(1, "$[last-7]", True), '[true, "x", 1, 2.0]'),
        ({"a": {"b": 1}}, diff(2, "$.a.b"), '{"a": {}}'),
    ],
)
def test_diffs_applied(before: object, diffs: bytes, after: str) -> None:
    assert apply_diffs_text(encode(before), diffs) == after


def test_updates_one_after_another_on_a_tree() -> None:
    tree = edit_tree(decode(encode({"a": 1})), diff(1, "$.b", []))
    assert tree_text(edit_tree(tree, diff(1, "$.b[0]", "x"))) == '{"a": 1, "b": ["x"]}'


@together(
    "before, diffs, reason",
    [
        ({}, b"\x03\x01$", "operation 3"), ({}, b"\x02\xfb", "wrong length"), ({}, b"\x02", "wrong length"),
        ({}, b"\x02\xfc\x01", "wrong length"), ({}, b"\x02\x09$", "beyond its end"), ({}, diff(2, "$"), "without legs"),
        ({}, diff(2, "$.a"), r'REMOVE \$."a"\) does not fit'), ({"a": 1}, diff(1, "$.a", 1), "does not fit"),
        ({"a": 1}, diff(0, "$.b", 1), "does not fit"), ([1], diff(0, "$.a", 1), "does not fit"),
        ([1], diff(0, "$[1]", 1), "does not fit"), ([1], diff(2, "$[last-1]"), "does not fit"),
        (5, diff(1, "$[0]", 1), "does not fit"), ({"a": 1}, diff(0, "$.a.b[1]", 1), "does not fit"),
    ],
)  # fmt: skip
def test_damage_is_refused_with_its_reason(before: object, diffs: bytes, reason: str) -> None:
    with pytest.raises(CorruptLog, match=reason):
        apply_diffs_text(encode(before), diffs)


def random_change(rnd: random.Random) -> str:
    """A JSON function call that the server may log as diffs."""
    legs = [".a", ".b", '."b c"', "[0]", "[1]", "[last]", "[last-1]", '."ключ"', ".zzz", '."q\\"uote"']
    path = "$" + "".join(rnd.choice(legs) for _ in range(rnd.randrange(1, 4)))
    quoted = "'" + path.replace("\\", "\\\\").replace("'", "''") + "'"
    function = rnd.choice(("JSON_SET", "JSON_REPLACE", "JSON_REMOVE"))
    value = json.dumps(random_document(rnd, 4)).replace("\\", "\\\\").replace("'", "''")
    return (
        f"{function}(j, {quoted})" if function == "JSON_REMOVE" else f"{function}(j, {quoted}, CAST('{value}' AS JSON))"
    )


@pytest.mark.mysql
@pytest.mark.parametrize("seed", range(2))
def test_logged_diffs_lead_to_what_the_server_shows(mysql_server: MySqlServer, seed: int) -> None:
    rnd = random.Random(seed)
    table = JsonTable(mysql_server)
    table.execute("SET SESSION binlog_row_value_options = PARTIAL_JSON")
    filler = {"filler": "x" * 500}  # else the whole document is shorter than its diffs
    table.insert([
        json.dumps({"a": {"a": [1, [2], {"b": 1}], "b c": [1, 2]}, "b": [[1, 2], {"a": "v"}, 3], "b c": {"b": {}},
                    "ключ": [{}, []], 'q"uote': {"a": 1}, **filler})
        for _ in range(20)
    ])  # fmt: skip
    expected = []
    for _ in range(250):
        row = rnd.randrange(20)
        before = table.execute(f"SELECT j FROM t WHERE id = {row}")[0][0]
        table.execute(f"UPDATE t SET j = {random_change(rnd)} WHERE id = {row}")
        after = table.execute(f"SELECT j FROM t WHERE id = {row}")[0][0]
        if after != before:
            expected.append((row, before, after))
    updates = [image for image in table.logged() if image.before is not None]
    partial = operations = 0
    changed = [image for image in updates if image.diffs or (image.after is not None and image.after != image.before)]
    assert len(changed) == len(expected)
    for image, (row, before, after) in zip(changed, expected, strict=True):
        document = image.before or b""
        assert (image.id, tree_text(decode(document))) == (row, before)
        if image.diffs is not None:
            partial += 1
            operations |= sum({1 << found.operation for found in read_diffs(image.diffs)})
            assert apply_diffs_text(document, image.diffs) == after
        else:
            assert tree_text(decode(image.after or b"")) == after
    assert partial > 50
    assert operations == 0b111
