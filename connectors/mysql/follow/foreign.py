"""Positions that other tools keep, as text: Debezium, Flink CDC, Canal, Maxwell; and those of this one. Pure.

| tool | text | what it means |
|---|---|---|
| Debezium | the value of a Kafka Connect offset, in whatever | begin of the transaction under way, GTIDs before it |
| Flink CDC | the offset as JSON, or as `{file=..., pos=...}` in a log line | the same |
| Canal | `meta.dat`, or a cursor of ZooKeeper | begin of the last event that was acknowledged |
| Maxwell | a row of `maxwell.positions` as JSON or of `mysql -E` | end of the last transaction that was sent |
| cdc | an offset as JSON, as a refused state directory shows it | end of the last transaction that was decided |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc.errors import SourceError
from connectors.mysql.server.positions import LogPosition

_OBJECT = re.compile(r"\{[^{}]*\}")
_PAIR = re.compile(r"(\w+)=(.*?)(?=, \w+=|\})", re.DOTALL)
_LINE = re.compile(r"^\s*(\w+):\s*(.*?)\s*$", re.MULTILINE)
_FIELDS = {
    "Canal": ("journalName", "position"), "cdc": ("file", "position"), "Maxwell": ("binlog_file", "binlog_position"),
    "Debezium": ("file", "pos"),
}  # fmt: skip
"""By tool, the names of file and position. Flink CDC's are Debezium's, with a kind beside them."""
_HINT = "docs/migrate.md has the text that each tool's position is taken from"


@dataclass(frozen=True, slots=True)
class ForeignPosition:
    """Where another tool is.

    Attributes:
        tool: whose text it is, for messages.
        at: a position in the server's log; it may be inside a transaction. None when there are GTIDs alone.
        gtids: transactions that are through; empty when the tool keeps none.
    """

    tool: str
    at: LogPosition | None
    gtids: str = ""


def parse_position(text: str) -> ForeignPosition:
    """The position in a text. Raises SourceError for one that has none, or several, or that is inside a snapshot."""
    found = list(dict.fromkeys(position for fields in _objects(text) if (position := _position(fields)) is not None))
    if not found:
        raise SourceError("this is no position of a tool that is known", where="cdc import", hint=_HINT)
    if len(found) > 1:
        shown = ", ".join(str(one.at or one.gtids) for one in found[:5])
        raise SourceError(f"there are several positions: {shown}", where="cdc import", hint="give the text of one")
    return found[0]


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Everything in a text that has named values, whatever is around it."""
    for match in _OBJECT.finditer(text):
        try:
            yield json.loads(match[0])
        except ValueError:
            yield dict(_PAIR.findall(match[0]))
    if "{" not in text:
        yield dict(_LINE.findall(text))


def _position(fields: Mapping[str, Any]) -> ForeignPosition | None:
    tool = next((tool for tool, names in _FIELDS.items() if fields.keys() >= {*names}), "")
    tool = tool or next((tool for tool, (name, _) in _FIELDS.items() if tool != "cdc" and name in fields), "")
    if not tool:
        return None
    if tool == "Debezium" and str(fields.get("snapshot", "false")).lower() not in ("false", "null", "none", ""):
        reason = "the tool was still copying tables: what it has not copied would be missing"
        raise SourceError(reason, where="cdc import", hint="let it finish, or run the pipeline with a copy of its own")
    file, position = _FIELDS[tool]
    gtids = next((str(fields[name]) for name in ("gtids", "gtid_set", "gtid") if _given(fields.get(name))), "")
    try:
        at = LogPosition(str(fields[file]), _whole(fields[position])) if _given(fields.get(file)) else None
    except (KeyError, ValueError) as error:
        raise SourceError(f"a position of {tool} lacks a number: {error}", where="cdc import", hint=_HINT) from None
    named = "Flink CDC" if tool == "Debezium" and "kind" in fields else tool
    return ForeignPosition(named, at, gtids) if at is not None or gtids else None


def _whole(value: object) -> int:
    """Raises ValueError for what is no number of a byte."""
    if not re.fullmatch(r"[0-9]{1,20}", str(value)):
        raise ValueError(repr(value))
    return int(str(value))


def _given(value: object) -> bool:
    return value is not None and str(value) not in ("", "null", "NULL", "None")
