"""The headers of a load: read once, refused with the server's messages, compared between the loads of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_standins.expressions import Item, NoFunctionError, parse_columns
from cdc_standins.load_text import TextFormat, one_byte, unknown_header
from cdc_standins.sql_text import Unparsable
from cdc_standins.starrocks.errors import LoadFailure, analysis

_CODECS = {"": "", "gzip": "gzip", "lz4_frame": "lz4", "zstd": "zstd"}
_LONGEST_TIMEOUT_S = 259_200
_NOT_KNOWN = dict.fromkeys(
    (
        "where",
        "partitions",
        "temporary_partitions",
        "negative",
        "merge_condition",
        "partial_update_mode",
        "envelope",
        "enable_merge_commit",
        "warehouse",
        "jsonpaths",
        "json_root",
        "enclose",
        "escape",
        "trim_space",
        "partial_update",
        "strip_outer_array",
        "ignore_json_size",
        "content-encoding",
    ),
    frozenset({"", "false"}),
) | dict.fromkeys(("skip_header", "max_filter_ratio"), frozenset({"", "0", "0.0"}))


@dataclass(frozen=True, slots=True)
class LoadHeaders:
    """The wishes of a load; `codec` as Arrow names it, `columns` the header as it came."""

    codec: str
    separator: bytes
    delimiter: bytes
    columns: str | None


def read_headers(headers: Mapping[str, str]) -> LoadHeaders:
    """Raises LoadFailure."""
    unknown = unknown_header(headers, _NOT_KNOWN)
    if unknown is not None:
        raise LoadFailure("NOT_IMPLEMENTED_ERROR", f"the stand-in does not know the header {unknown}", aborts=True)
    if headers.get("strict_mode", "").lower() != "true":
        raise LoadFailure("NOT_IMPLEMENTED_ERROR", "the stand-in knows only loads with strict_mode: true", aborts=True)
    form = headers.get("format", "csv")
    if form.lower() != "csv":
        raise LoadFailure("NOT_IMPLEMENTED_ERROR", f"the stand-in reads only csv, not {form}", aborts=True)
    compression = headers.get("compression", "").lower()
    if compression not in _CODECS:
        raise LoadFailure("INVALID_ARGUMENT", f"unsupported compression type {compression.upper()}", aborts=True)
    return LoadHeaders(
        codec=_CODECS[compression],
        separator=_separator(headers, "column_separator", "\t"),
        delimiter=_separator(headers, "row_delimiter", "\n"),
        columns=headers.get("columns") or None,
    )


def text_format(headers: LoadHeaders) -> TextFormat:
    """How the rows are written."""
    ends = f"Column delimiter: {headers.separator[0]},Row delimiter: {headers.delimiter[0]}"

    def mismatch(width: int, found: int, row: bytes) -> str:
        return error_line(f"Value count does not match column count. Expect {width}, but got {found}. {ends}", row)

    return TextFormat(headers.separator, headers.delimiter, lambda row: error_line("Invalid UTF-8 row", row), mismatch)


def error_line(message: str, row: bytes) -> str:
    """A line of the error log."""
    return f"Error: {message}. Row: {row.decode(errors='replace')[:1024]}"


def read_columns(header: str) -> list[Item]:
    """The items of a `columns` header. Raises LoadFailure."""
    try:
        return parse_columns(header)
    except Unparsable as error:
        raise analysis(f"parse columns header failed: {error}") from error
    except NoFunctionError as error:
        types = ", ".join(["varchar"] * error.arguments)
        raise analysis(f"No matching function with signature: {error.name}({types}).") from error


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


def _separator(headers: Mapping[str, str], name: str, default: str) -> bytes:
    text = headers.get(name, default)
    found = one_byte(text)
    if found is None:
        raise analysis(f"the stand-in knows only a {name} of one byte, not {text!r}")
    return found
