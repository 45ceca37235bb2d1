"""Request headers of a stream load: checked in the server's order, as a frozen value. What is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_standins.doris.csv_rows import CsvFormat
from cdc_standins.doris.errors import LoadError, from_front_end
from cdc_standins.doris.expressions import Item, parse_columns, parse_delete

LABEL = re.compile(r"[-_A-Za-z0-9:]{1,128}")
FORMATS = ("csv", "json", "csv_with_names", "csv_with_names_and_types")
COMPRESSIONS = ("", "gz", "bz2", "lz4", "deflate")
_REAL_FORMATS = ("parquet", "orc", "arrow", "hive_text")
_NOT_KNOWN = (
    "where", "partitions", "temporary_partitions", "negative", "jsonpaths", "json_root", "fuzzy_parse",
    "partial_columns", "unique_key_update_mode", "trim_double_quotes", "num_as_string", "token", "cloud_cluster",
    "compute_group",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadHeaders:
    """What one load asks for."""

    label: str
    format: str
    compression: str
    csv: CsvFormat
    columns: tuple[Item, ...] | None
    hidden_columns: tuple[str, ...]
    merge_type: str
    delete: tuple[str, str] | None
    sequence: str
    two_phase: bool
    strict: bool
    max_filter_ratio: float
    timeout_s: int
    by_line: bool
    outer_array: bool


def check_transport(headers: Mapping[str, str], limits: Mapping[str, int]) -> None:
    """What is checked before the transaction begins; raises LoadError."""
    mode = headers.get("group_commit", "off_mode").lower()
    if mode not in ("off_mode", "sync_mode", "async_mode"):
        raise LoadError("INVALID_ARGUMENT", "group_commit can only be [async_mode, sync_mode, off_mode]")
    if mode != "off_mode":
        if headers.get("label"):
            raise LoadError("INTERNAL_ERROR", "label and group_commit can't be set at the same time")
        raise LoadError("INTERNAL_ERROR", "the stand-in has no group commit")
    kind = headers.get("format", "csv").lower()
    if kind in _REAL_FORMATS:
        raise LoadError("INTERNAL_ERROR", f"the stand-in reads only {', '.join(FORMATS)}, not {kind}")
    if kind not in FORMATS:
        raise LoadError("INTERNAL_ERROR", f"unknown data format, format={headers.get('format')}")
    length = headers.get("content-length")
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    if length is not None:
        _check_size(int(length), kind, headers, limits)
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


def read_headers(headers: Mapping[str, str], label: str, default_timeout_s: int) -> LoadHeaders:
    """The load's headers, checked as when its plan is made; raises LoadError."""
    unknown = [name for name in _NOT_KNOWN if headers.get(name, "").lower() not in ("", "false", "upsert")]
    if unknown:
        raise LoadError("INTERNAL_ERROR", f"the stand-in does not know the header {unknown[0]}")
    merge = headers.get("merge_type", "APPEND").upper()
    if merge not in ("APPEND", "DELETE", "MERGE"):
        raise LoadError("INVALID_ARGUMENT", f"Invalid merge type {headers['merge_type']}")
    delete = headers.get("delete")
    if merge == "MERGE" and not delete:
        raise LoadError("INVALID_ARGUMENT", "Excepted DELETE ON clause when merge type is MERGE.")
    if merge != "MERGE" and delete:
        raise LoadError("INVALID_ARGUMENT", "Not support DELETE ON clause when merge type is not MERGE.")
    columns = headers.get("columns")
    hidden = [] if columns else [one.strip() for one in headers.get("hidden_columns", "").split(",") if one.strip()]
    compression = headers.get("compress_type", "").lower()
    if compression not in COMPRESSIONS:
        raise LoadError("INTERNAL_ERROR", f"unknown compress type {compression}")
    array_set, line_set = "strip_outer_array" in headers, "read_json_by_line" in headers
    return LoadHeaders(
        label=label,
        format=headers.get("format", "csv").lower(),
        compression=compression,
        csv=_csv(headers),
        columns=tuple(parse_columns(columns)) if columns else None,
        hidden_columns=tuple(hidden),
        merge_type=merge,
        delete=parse_delete(delete) if delete else None,
        sequence=headers.get("function_column.sequence_col", ""),
        two_phase=headers.get("two_phase_commit") == "true",
        strict=_boolean(headers, "strict_mode", "Invalid strict mode format. Must be bool type"),
        max_filter_ratio=_ratio(headers.get("max_filter_ratio", "0")),
        timeout_s=int(headers.get("timeout", default_timeout_s)),
        by_line=_is_true(headers, "read_json_by_line") if line_set else not array_set,
        outer_array=_is_true(headers, "strip_outer_array"),
    )


def check_label(label: str) -> None:
    """LoadError when the label is written wrong."""
    if not LABEL.fullmatch(label):
        raise from_front_end(f"Label format error. regex: ^{LABEL.pattern}$, label: {label}")


def decoded_separator(text: str, what: str) -> bytes:
    r"""A separator as the front end reads it: all hex when it starts with `\x`, else `\t \n \r \\ \' \"` resolved."""
    if not text:
        raise from_front_end(f"{what} is null or empty")
    if text[:2].upper() == "\\X":
        digits = re.sub(r"\\x", "", text, flags=re.IGNORECASE)
        if not re.fullmatch(r"[0-9A-Fa-f]*", digits):
            raise from_front_end("Hex str format error")
        if not digits or len(digits) % 2:
            raise from_front_end("Hex str is empty" if not digits else "Hex str length error")
        decoded = bytes.fromhex(digits)
        if any(byte >= 0x80 for byte in decoded):
            raise from_front_end("the stand-in knows only separators below 0x80 in hex: the server mangles others")
        return decoded
    names = {"\\": "\\", "'": "'", '"': '"', "r": "\r", "t": "\t", "n": "\n"}
    return re.sub(r"\\(.)", lambda found: names.get(found[1], found[0]), text, flags=re.DOTALL).encode()


def _csv(headers: Mapping[str, str]) -> CsvFormat:
    kind = headers.get("format", "csv").lower()
    skip = headers.get("skip_lines", "0").strip()
    if not skip.isdigit():
        raise LoadError("INVALID_ARGUMENT", f"Invalid 'skip_lines': {skip}")
    return CsvFormat(
        separator=decoded_separator(headers.get("column_separator", "\t"), "Column separator"),
        delimiter=decoded_separator(headers.get("line_delimiter", "\n"), "Line delimiter"),
        enclose=_single(headers, "enclose"),
        escape=_single(headers, "escape"),
        skip_lines={"csv_with_names": 1, "csv_with_names_and_types": 2}.get(kind, int(skip)),
        empty_field_as_null=_is_true(headers, "empty_field_as_null"),
    )


def _single(headers: Mapping[str, str], name: str) -> bytes:
    value = headers.get(name, "").encode()
    if len(value) > 1:
        raise LoadError("INVALID_ARGUMENT", f"{name} must be single-char, actually is {value.decode()}")
    if value and value == headers.get({"enclose": "escape"}.get(name, ""), "").encode():
        raise LoadError("INVALID_ARGUMENT", "the stand-in knows no load whose enclose and escape are the same")
    return value


def _is_true(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").lower() == "true"


def _boolean(headers: Mapping[str, str], name: str, message: str) -> bool:
    value = headers.get(name, "false").lower()
    if value not in ("true", "false"):
        raise LoadError("INVALID_ARGUMENT", message)
    return value == "true"


def _ratio(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise LoadError("INVALID_ARGUMENT", f"Invalid max_filter_ratio: {text}") from error


def _check_size(size: int, kind: str, headers: Mapping[str, str], limits: Mapping[str, int]) -> None:
    most = int(limits["load_max_bytes"])
    if size > most:
        raise LoadError("EXCEEDED_LIMIT", f"body size {size} exceed BE's conf streaming_load_max_mb {most >> 20}")
    most = int(limits["json_max_bytes"])
    if kind == "json" and headers.get("read_json_by_line", "").lower() != "true" and size > most:
        raise LoadError(
            "EXCEEDED_LIMIT",
            f"json body size {size} exceed BE's conf streaming_load_json_max_mb {most >> 20}. increase it if you are "
            "sure this load is reasonable",
        )
