"""JSON rows as Doris's back end reads them: a missing key takes the column's default, null is NULL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_standins.doris.errors import LoadError

MISSING = b"\0missing"
"""Stands in a column of fields where the row had no such key; compared by identity."""

Field = bytes | None


@dataclass(slots=True)
class JsonRows:
    """Rows as columns of fields; `filtered` says why objects were left out."""

    columns: list[list[Field]]
    count: int
    filtered: list[str] = field(default_factory=list)


class _Number(str):
    """A number as it was spelled."""


def read_json(body: bytes, names: Sequence[str], *, by_line: bool, outer_array: bool) -> JsonRows:
    """The objects of a body as columns of `names`. Raises LoadError when the body as a whole is wrong."""
    rows = JsonRows([[] for _ in names], 0)
    wanted = set(names)
    for document in _documents(body, by_line=by_line, outer_array=outer_array, filtered=rows.filtered):
        if not isinstance(document, dict) or not wanted & document.keys():
            rows.filtered.append(
                "There is no column matching jsonpaths in the json file, columns:[" + ", ".join(names) + "]"
            )
            continue
        rows.count += 1
        for column, name in zip(rows.columns, names, strict=True):
            column.append(_field(document[name]) if name in document else MISSING)
    return rows


def _documents(body: bytes, *, by_line: bool, outer_array: bool, filtered: list[str]) -> list[Any]:
    texts = [line for line in body.splitlines() if line.strip()] if by_line else [body]
    documents: list[Any] = []
    for text in texts:
        if not text.strip():
            continue
        try:
            found = _parse(text)
        except json.JSONDecodeError as error:
            if "Extra data" in error.msg and by_line:
                raise LoadError("DATA_QUALITY_ERROR", "Multiple JSON objects in a single line") from error
            filtered.append(f"Parse json data failed. code: 3, error info: {error.msg}")
            continue
        except UnicodeDecodeError:
            filtered.append("Parse json data failed. code: 10, error info: The input is not valid UTF-8")
            continue
        if isinstance(found, list) and not outer_array:
            filtered.append("JSON data is array-object, `strip_outer_array` must be TRUE.")
        elif not isinstance(found, list) and outer_array:
            filtered.append("JSON data is not an array-object, `strip_outer_array` must be FALSE.")
        else:
            documents += found if isinstance(found, list) else [found]
    return documents


def _parse(text: bytes) -> Any:
    return json.loads(text.decode(), parse_int=_Number, parse_float=_Number, object_pairs_hook=_first_wins)


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _field(value: Any) -> Field:
    if value is None:
        return None
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, str):
        return value.encode()
    return _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_text(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_text(one)}" for key, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
