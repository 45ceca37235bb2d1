"""Our Canal messages of a recorded MariaDB binlog against those that Canal 1.1.7 made of it, row by row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from recorded import differences, ours, theirs

from connectors.kafka.encoding import canal

EXCEPTIONS = {
    r"es": "Canal knows the second, ours is the commit's millisecond where the log has it",
    r"ts|id": "the moment of writing, and a number of Canal's batches",
    r"(data|old)\[0\]\.c_(latin1|gbk|utf16)": "Canal garbles text that is not UTF-8",
    r"(data|old)\[0\]\.c_(date|datetime6?|ts)": "zero and invalid dates are NULL here by default, and counted",
    r"(mysqlType)\..*": "display widths, and JSON as MariaDB's longtext: ours is the type as the log describes it",
    r"sqlType\.c_(json|enum|set|bit\d+|year|\w*text)": "Canal takes JDBC numbers from display types",
    r"sqlType\.c_u\w+": "Canal takes a larger JDBC type where an unsigned value does not fit the signed one",
    r"data\[0\]\.c_binary": "Canal leaves out zero bytes at the end, as the log does",
    r"data\[0\]\.c_year": "YEAR 0 is 0 here, 0000 there",
    r"data\[0\]\.c_(float|double|bit64)|old\[0\]\.c_(float|double|bit64)": "Java's spelling of numbers",
}
"""Where messages may differ, and why."""


def rows() -> dict[str, list[dict[str, Any]]]:
    """Canal's messages with one row each; an update that changes the key as a delete and an insert."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for message in theirs("canal-json.jsonl"):
        if message["isDdl"]:
            continue
        for index, row in enumerate(message["data"]):
            old = message["old"][index] if message["old"] else None
            one = {**message, "data": [row], "old": [old] if old is not None else None}
            table = f"{message['database']}.{message['table']}"
            if old and set(old) & set(message["pkNames"] or ()):
                found[table] += [
                    {**one, "data": [{**row, **old}], "old": None, "type": "DELETE"},
                    {**one, "old": None, "type": "INSERT"},
                ]
            else:
                found[table].append(one)
    return found


def test_messages_are_canals() -> None:
    made = ours("mariadb", lambda block: canal.layout(block.table, block.schema))
    wanted = rows()
    assert {table: len(records) for table, records in made.items()} == {t: len(r) for t, r in wanted.items()}
    wrong = [
        (table, index, *each)
        for table, records in wanted.items()
        for index, (mine, real) in enumerate(zip(made[table], records, strict=True))
        for each in _unexplained(mine[1], real)
    ]
    assert wrong == []


def _unexplained(mine: Any, real: Any) -> Iterator[tuple[str, Any, Any]]:
    for key in real:
        for path, one, other in differences(key, mine[key], real[key]):
            if any(re.fullmatch(pattern, path) for pattern in EXCEPTIONS):
                continue
            # Canal loses zeros at the end of decimals.
            if isinstance(one, str) and re.fullmatch(r"-?\d+\.\d+", one) and Decimal(one) == Decimal(other):
                continue
            yield path, one, other
