"""The headers of a load: read once, refused with the server's messages, compared between the loads of a transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_standins.starrocks.errors import LoadFailure, analysis

_HEX = re.compile(r"(?:\\x|0x)([0-9a-f]*)", re.IGNORECASE)
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\\": "\\", r"\0": "\0"}
_COMPRESSED_CSV = {"gzip": "GZIP", "bzip2": "BZIP2", "lz4": "LZ4_FRAME", "deflate": "DEFLATE", "zstd": "ZSTD"}
_COMPRESSIONS = frozenset({"GZIP", "BZIP2", "LZ4_FRAME", "ZSTD"})
_LONGEST_TIMEOUT_S = 259_200
_UNKNOWN = (
    "where", "partitions", "temporary_partitions", "negative", "merge_condition", "partial_update_mode", "envelope",
    "enable_merge_commit", "warehouse", "jsonpaths", "json_root",
)  # fmt: skip
_ONLY_PLAIN = ("enclose", "escape", "trim_space")


@dataclass(frozen=True, slots=True)
class LoadHeaders:
    """What the headers ask for. `columns` is the header as it came."""

    format: str = "csv"
    compression: str | None = None
    column_separator: bytes = b"\t"
    row_delimiter: bytes = b"\n"
    columns: str | None = None
    strict: bool = False
    max_filter_ratio: float = 0.0
    partial_update: bool = False
    strip_outer_array: bool = False
    ignore_json_size: bool = False
    skip_header: int = 0


def read_headers(headers: Mapping[str, str], *, plain: bool) -> LoadHeaders:
    """Raises LoadFailure. In a transaction (`plain` False) the headers that its loads do not read are ignored."""
    for name in (*_UNKNOWN, *(_ONLY_PLAIN if plain else ())):
        if headers.get(name):
            raise LoadFailure("NOT_IMPLEMENTED_ERROR", f"the stand-in does not know the header {name}", aborts=True)
    form, compression = _format(headers)
    ratio = _ratio(headers.get("max_filter_ratio", "0"))
    return LoadHeaders(
        format=form,
        compression=compression,
        column_separator=_delimiter(headers.get("column_separator", "\t")),
        row_delimiter=_delimiter(headers.get("row_delimiter", "\n")),
        columns=headers.get("columns") or None,
        strict=_boolean(headers, "strict_mode", "Invalid strict mode format. Must be bool type"),
        max_filter_ratio=ratio,
        partial_update=headers.get("partial_update") == "true",
        strip_outer_array=_boolean(headers, "strip_outer_array", "Invalid strip_outer_array format. Must be bool type"),
        ignore_json_size=_boolean(headers, "ignore_json_size", "Invalid ignore_json_size format. Must be bool type"),
        skip_header=_count(headers, "skip_header") if plain else 0,
    )


def timeout_s(headers: Mapping[str, str], default_s: float) -> float:
    """The `timeout` header. Raises LoadFailure."""
    text = headers.get("timeout")
    if not text:
        return default_s
    if not text.isdigit() or not 1 <= int(text) <= _LONGEST_TIMEOUT_S:
        raise LoadFailure("INVALID_ARGUMENT", f"Invalid timeout: {text}, allowed are 1 to {_LONGEST_TIMEOUT_S} seconds")
    return float(text)


def idle_timeout_s(headers: Mapping[str, str]) -> float:
    """The `idle_transaction_timeout` header, 0 for none. Raises LoadFailure."""
    text = headers.get("idle_transaction_timeout", "0")
    if not text.isdigit():
        raise LoadFailure("INVALID_ARGUMENT", f"Invalid idle_transaction_timeout: {text}")
    return float(text)


def prepared_timeout_s(headers: Mapping[str, str], default_s: float) -> float:
    """The `prepared_timeout` header. Raises LoadFailure."""
    text = headers.get("prepared_timeout")
    if text is None:
        return default_s
    if not text.isdigit() or int(text) <= 0:
        raise LoadFailure("INVALID_ARGUMENT", f"Invalid prepared_timeout: {text}")
    return float(text)


def _format(headers: Mapping[str, str]) -> tuple[str, str | None]:
    form = headers.get("format", "csv").lower() or "csv"
    compression = headers.get("compression")
    encoding = headers.get("content-encoding")
    if compression and encoding:
        raise LoadFailure(
            "INVALID_ARGUMENT", "Only one of http header content-encoding and compression can be set", aborts=True
        )
    chosen = (compression or encoding or "").upper() or None
    if form in _COMPRESSED_CSV:
        form, chosen = "csv", _COMPRESSED_CSV[form]
    if form not in ("csv", "json"):
        raise LoadFailure("INTERNAL_ERROR", f"unknown data format, format={form}", aborts=True)
    if chosen is not None and chosen not in _COMPRESSIONS:
        raise LoadFailure("INVALID_ARGUMENT", f"unsupported compression type {chosen}", aborts=True)
    return form, chosen


def _delimiter(text: str) -> bytes:
    if not text:
        raise analysis("Delimiter cannot be empty or null")
    match = _HEX.match(text)
    if match is None:
        unescaped = re.sub(r"\\[tnr0\\]", lambda found: _ESCAPES[found[0]], text)
        found = unescaped.encode()
    else:
        digits = text[2:]
        if not digits or len(digits) % 2 or match.end() != len(text):
            raise analysis(f"Invalid delimiter '{text}': not an even number of hex digits")
        found = bytes.fromhex(digits)
        if max(found) > 127:
            raise analysis(f"Invalid delimiter '{text}': the stand-in knows only hex bytes below 80")
    if len(found) > 50:
        raise analysis("the length of the delimiter must be between 1 and 50 bytes")
    return found


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise analysis(f"Invalid max_filter_ratio: {text}")
    return ratio


def _boolean(headers: Mapping[str, str], name: str, message: str) -> bool:
    text = headers.get(name, "false").lower() or "false"
    if text not in ("true", "false"):
        raise LoadFailure("INVALID_ARGUMENT", message, aborts=True)
    return text == "true"


def _count(headers: Mapping[str, str], name: str) -> int:
    text = headers.get(name, "0")
    if not text.isdigit():
        raise LoadFailure("INVALID_ARGUMENT", f"Invalid csv load {name} format", aborts=True)
    return int(text)
