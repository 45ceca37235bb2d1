"""Parses positions stored by other tools, as text: Debezium, Flink CDC, Canal, Maxwell; and by this one. Pure.

| tool | text | what it means |
|---|---|---|
| Debezium | the value of a Kafka Connect offset, in any text | begin of the current transaction, GTIDs before it |
| Debezium | change messages of its topics | the rows event of the last one, and its row in it |
| Flink CDC | the offset as JSON, or as `{file=..., pos=...}` in a log line | the same |
| Canal | `meta.dat`, or a cursor of ZooKeeper | begin of the last acknowledged event |
| Maxwell | a row of `maxwell.positions` as JSON or of `mysql -E` | end of the last transaction sent |
| cdc | an offset as JSON, as shown for a refused state directory | end of the last transaction decided |
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
"""Names of file and position by tool. Flink CDC's are Debezium's, plus a kind."""
_HINT = "docs/migrate.md has the text that each tool's position is taken from"


@dataclass(frozen=True, slots=True)
class DeliveredPart:
    """The delivered part of a tool's current transaction.

    Attributes:
        rows: delivered rows of one event; all events before it are delivered.
        events: the number of that event, counted from the begin of the transaction; unused if `begin` is given.
        begin: where that event begins in its file; None if it is only counted.
        gtid: of the transaction; empty if unknown.
    """

    rows: int
    events: int = 0
    begin: int | None = None
    gtid: str = ""


@dataclass(frozen=True, slots=True)
class ForeignPosition:
    """The position of another tool.

    Attributes:
        tool: the tool, for messages.
        at: a position in the server's log, possibly inside a transaction. None with GTIDs alone.
        gtids: committed transactions; empty when the tool stores none.
        inside: the part delivered after that; None for nothing.
    """

    tool: str
    at: LogPosition | None
    gtids: str = ""
    inside: DeliveredPart | None = None

    @property
    def is_message(self) -> bool:
        """Whether it comes from a change message."""
        return self.inside is not None and self.inside.begin is not None


def parse_position(text: str) -> ForeignPosition:
    """Find the position in a text. Raises SourceError for no position, several, or one inside a snapshot."""
    found = list(dict.fromkeys(position for fields in _objects(text) if (position := _position(fields)) is not None))
    messages = [one for one in found if one.is_message]
    if messages:  # possibly of several topics, but all from one log
        return max(messages, key=_order)
    if not found:
        raise SourceError("this is not a position of a known tool", where="cdc import", hint=_HINT)
    if len(found) > 1:
        shown = ", ".join(str(one.at or one.gtids) for one in found[:5])
        raise SourceError(f"there are several positions: {shown}", where="cdc import", hint="give the text of one")
    return found[0]


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield all objects with named values in a text, whatever is around them."""
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
    if tool == "Debezium" and {"connector", "table"} <= fields.keys():
        return _of_message(fields)
    if tool == "Debezium" and str(fields.get("snapshot", "false")).lower() not in ("false", "null", "none", ""):
        reason = "the tool was still copying tables: what it has not copied would be missing"
        raise SourceError(reason, where="cdc import", hint="let it finish, or run the pipeline with a copy of its own")
    file, position = _FIELDS[tool]
    gtids = next((str(fields[name]) for name in ("gtids", "gtid_set", "gtid") if _is_given(fields.get(name))), "")
    try:
        at = LogPosition(str(fields[file]), _parse_integer(fields[position])) if _is_given(fields.get(file)) else None
    except (KeyError, ValueError) as error:
        raise SourceError(f"a position of {tool} lacks a number: {error}", where="cdc import", hint=_HINT) from None
    named = "Flink CDC" if tool == "Debezium" and "kind" in fields else tool
    events, rows = (_count(fields.get(name)) if tool == "Debezium" else 0 for name in ("event", "row"))
    inside = DeliveredPart(rows, events) if rows else None
    return ForeignPosition(named, at, gtids, inside) if at is not None or gtids else None


def _of_message(source: Mapping[str, Any]) -> ForeignPosition | None:
    """Return the position of a change message from its `source`; None for one without a row, or of a snapshot."""
    snapshot = str(source.get("snapshot", "false")).lower()
    if not source.get("table") or snapshot not in ("false", "null", "none", ""):
        return None
    gtid = str(source["gtid"]) if _is_given(source.get("gtid")) else ""
    begin = _count(source["pos"])
    return ForeignPosition(
        "Debezium",
        LogPosition(str(source["file"]), begin),
        "",
        DeliveredPart(_count(source.get("row")) + 1, 0, begin, gtid),
    )


def _order(message: ForeignPosition) -> tuple[LogPosition, int]:
    assert message.at is not None
    assert message.inside is not None
    return message.at, message.inside.rows


def _count(value: object) -> int:
    """Parse a count; 0 for anything else."""
    return int(str(value)) if re.fullmatch(r"[0-9]{1,18}", str(value)) else 0


def _parse_integer(value: object) -> int:
    """Parse a byte offset. Raises ValueError for anything else."""
    if not re.fullmatch(r"[0-9]{1,20}", str(value)):
        raise ValueError(repr(value))
    return int(str(value))


def _is_given(value: object) -> bool:
    return value is not None and str(value) not in ("", "null", "NULL", "None")
