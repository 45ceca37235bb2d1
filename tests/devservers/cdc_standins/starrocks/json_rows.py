"""JSON documents to columns of fields. Each body is a complete document; a wrong one fails the whole load."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from cdc_standins.starrocks.csv_rows import Window
from cdc_standins.starrocks.errors import LoadFailure
from cdc_standins.starrocks.expressions import Field
from cdc_standins.starrocks.plan import Plan, Slot
from cdc_standins.starrocks.types import INTEGER_BITS

WINDOW_ROWS = 20_000


class _Number(str):
    """A number as it was written."""


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number)


class JsonReader:
    """Collects a body, reads its objects when it ends."""

    def __init__(self, plan: Plan, *, strip_outer_array: bool) -> None:
        self._slots: Sequence[Slot] = plan.slots
        self._names = [
            next((c.name for c in plan.table.columns if c.name.lower() == s.name), s.name) for s in plan.slots
        ]
        self._strip = strip_outer_array
        self._body = bytearray()

    def feed(self, data: bytes) -> Iterator[Window]:
        """Keep bytes until the body ends."""
        self._body += data
        yield from ()

    def end_body(self) -> Iterator[Window]:
        """The rows of the body. Raises LoadFailure when it is not what the headers say."""
        try:
            text = self._body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad(f"parse error, invalid UTF-8: {error.reason}") from error
        self._body.clear()
        rows = list(self._objects(text))
        for start in range(0, len(rows), WINDOW_ROWS):
            yield self._window(rows[start : start + WINDOW_ROWS])

    def finish(self) -> Iterator[Window]:
        """Nothing is left after the last body."""
        yield from ()

    def _objects(self, text: str) -> Iterator[dict[str, Any]]:
        first = text.lstrip()[:1]
        if first and first not in "{[":
            raise _bad(f"illegal json started with {first}")
        if self._strip and first == "{":
            raise _bad("the value should be array type with strip_outer_array=true, value: " + text.strip()[:64])
        if not self._strip and first == "[":
            raise _bad(
                "The value is array type in json document stream, you can set strip_outer_array=true to parse each "
                "element of the array as individual rows"
            )
        for document in _documents(text):
            for value in document if self._strip else [document]:
                if not isinstance(value, dict):
                    raise _bad(f"the value should be object type, value: {_minified(value)[:64]}")
                yield value

    def _window(self, rows: list[dict[str, Any]]) -> Window:
        columns = [
            [_field(row.get(name), slot) for row in rows] for name, slot in zip(self._names, self._slots, strict=True)
        ]
        return Window(list(columns), [_minified(row).encode() for row in rows])


def _documents(text: str) -> Iterator[Any]:
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return
        try:
            document, at = _DECODER.raw_decode(text, at)
        except ValueError as error:
            raise _bad(f"parse error: {error}") from error
        yield document


def _field(value: Any, slot: Slot) -> Field:
    """A value as the text that the column's type reads."""
    kind = slot.type.name
    if value is None:
        return None
    if kind == "JSON":
        return _minified(value).encode()
    if isinstance(value, bool):
        return b"invalid boolean" if kind in INTEGER_BITS else (b"1" if value else b"0")
    if isinstance(value, _Number):
        return _whole(value) if kind in INTEGER_BITS else value.encode()
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return _minified(value).encode()


def _whole(number: str) -> bytes:
    """A number for an integer column: its fraction is cut off."""
    if number.lstrip("-").isdigit():
        return number.encode()
    return str(int(float(number))).encode()


def _minified(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_minified(item)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_minified, value)) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _bad(message: str) -> LoadFailure:
    return LoadFailure("DATA_QUALITY_ERROR", message, aborts=True)
