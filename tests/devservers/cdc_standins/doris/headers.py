"""Request headers of a stream load: checked in the server's order, as a frozen value. What is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_standins.doris.errors import LoadError, from_front_end
from cdc_standins.expressions import Item, NoFunctionError, parse_columns
from cdc_standins.load_text import TextFormat, one_byte, unknown_header
from cdc_standins.sql_text import Unparsable

LABEL = re.compile(r"[-_A-Za-z0-9:]{1,128}")
BLOCK_ROWS = 4064
_CODECS = {"": "", "gz": "gzip", "lz4": "lz4"}
_NOTHING = frozenset({"", "false", "append", "upsert"})
_NOT_KNOWN = dict.fromkeys((
    "where", "partitions", "temporary_partitions", "negative", "jsonpaths", "json_root", "fuzzy_parse",
    "partial_columns", "unique_key_update_mode", "trim_double_quotes", "num_as_string", "token", "cloud_cluster",
    "compute_group", "enclose", "escape", "empty_field_as_null", "merge_type", "delete", "read_json_by_line",
    "strip_outer_array", "function_column.sequence_col", "group_commit",
), _NOTHING) | {"skip_lines": frozenset({"", "0"}), "max_filter_ratio": frozenset({"", "0", "0.0"})}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadHeaders:
    """The wishes of one load; `codec` as Arrow names it."""

    codec: str
    text: TextFormat
    columns: tuple[Item, ...] | None
    hidden_columns: tuple[str, ...]
    two_phase: bool
    strict: bool


def check_transport(headers: Mapping[str, str], limits: Mapping[str, int]) -> None:
    """What is checked before the transaction begins; raises LoadError."""
    if headers.get("format", "csv").lower() != "csv":
        raise LoadError("INTERNAL_ERROR", f"the stand-in reads only csv, not {headers['format']}")
    length = headers.get("content-length")
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    if length is not None and int(length) > int(limits["load_max_bytes"]):
        most = int(limits["load_max_bytes"]) >> 20
        raise LoadError("EXCEEDED_LIMIT", f"body size {length} exceed BE's conf streaming_load_max_mb {most}")
    if length is None and not chunked:
        raise LoadError(
            "INVALID_ARGUMENT",
            "content_length is empty and transfer-encoding!=chunked, "
            "please set content_length or transfer-encoding=chunked",
        )
    if length is not None and chunked:
        raise LoadError("INVALID_ARGUMENT", "please do not set both content_length and transfer-encoding")
    if "timeout" in headers and not headers["timeout"].strip().isdigit():
        raise LoadError("INVALID_ARGUMENT", f"Invalid timeout format, {headers['timeout']}")


def read_headers(headers: Mapping[str, str]) -> LoadHeaders:
    """The load's headers, checked as when its plan is made; raises LoadError."""
    unknown = unknown_header(headers, _NOT_KNOWN)
    if unknown is not None:
        raise LoadError("INTERNAL_ERROR", f"the stand-in does not know the header {unknown}")
    compression = headers.get("compress_type", "").lower()
    if compression not in _CODECS:
        raise LoadError("INTERNAL_ERROR", f"unknown compress type {compression}")
    columns = headers.get("columns")
    hidden = [] if columns else [one.strip() for one in headers.get("hidden_columns", "").split(",") if one.strip()]
    return LoadHeaders(
        codec=_CODECS[compression],
        text=text_format(headers),
        columns=tuple(read_columns(columns)) if columns else None,
        hidden_columns=tuple(hidden),
        two_phase=headers.get("two_phase_commit") == "true",
        strict=headers.get("strict_mode", "").lower() == "true",
    )


def read_columns(header: str) -> list[Item]:
    """The items of a `columns` header. Raises LoadError."""
    try:
        return parse_columns(header)
    except Unparsable as error:
        raise from_front_end(f"parse columns header failed. columns: {header}, {error}") from error
    except NoFunctionError as error:
        types = ", ".join(["VARCHAR"] * error.arguments)
        found = f"Can not found function '{error.name}' which has {error.arguments} arity ({types})"
        raise from_front_end(found) from error


def check_label(label: str) -> None:
    """LoadError when the label is written wrong."""
    if not LABEL.fullmatch(label):
        raise from_front_end(f"Label format error. regex: ^{LABEL.pattern}$, label: {label}")


def text_format(headers: Mapping[str, str]) -> TextFormat:
    """How the rows are written. Raises LoadError."""
    separator = _separator(headers, "column_separator", "\t")
    delimiter = _separator(headers, "line_delimiter", "\n")
    shown = [
        one.replace(b"\t", b"\\t").replace(b"\n", b"\\n").decode(errors="replace") for one in (separator, delimiter)
    ]

    def mismatch(width: int, found: int, _: bytes) -> str:
        return f"Column count mismatch: expected {width}, but found {found} (sep:{shown[0]} delim:{shown[1]})"

    return TextFormat(separator, delimiter, _not_utf8, mismatch, BLOCK_ROWS)


def _not_utf8(_: bytes) -> str:
    return "Invalid file encoding: all CSV files must be UTF-8 encoded"


def _separator(headers: Mapping[str, str], name: str, default: str) -> bytes:
    text = headers.get(name, default)
    found = one_byte(text)
    if found is None:
        raise from_front_end(f"the stand-in knows only a {name} of one byte, not {text!r}")
    return found
