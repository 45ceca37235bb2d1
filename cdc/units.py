"""Parsing of durations, sizes, time zones and paths: `30s`, `10 min`; `64 mb`, `1 MiB`; `GMT+8`. Without pydantic.

The units and the meaning of a bare number are Flink's (`TimeUtils`, `MemorySize`): a duration without a unit is
milliseconds, a size without a unit is bytes, and `kb` and `KiB` are both 1024 bytes.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo

_NUMBER_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)

_SECONDS: dict[str, float] = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("us", "micro", "micros", "microsecond", "microseconds"), 0.000001),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 0.000000001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_BYTES: dict[str, int] = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 1 << 40),
}

LONGEST_DURATION_S = 3650 * 86400.0
LARGEST_SIZE = 1 << 60

DURATION_RULE = "must be a duration such as 30s, 10 min or 500 ms"
SIZE_RULE = "must be a size such as 64 mb, 1 GiB or 1048576"


class OptionError(ValueError):
    """An invalid option value: the message is the rule, `hint` the next step. Contains no secrets."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def parse_duration(value: object) -> float:
    """Parse a duration to seconds; a number without a unit is milliseconds. Raises OptionError."""
    number, unit = _split_unit(value, DURATION_RULE)
    if unit not in _SECONDS:
        raise OptionError(f"{DURATION_RULE}; the unit {unit!r} is not known", "units: ms, s, min, h, d")
    seconds = float(number) * _SECONDS[unit]
    if seconds > LONGEST_DURATION_S:
        raise OptionError("must be at most 3650 d", "a number without a unit is milliseconds")
    return seconds


def parse_size(value: object) -> int:
    """Parse a size to bytes; a number without a unit is bytes. Raises OptionError."""
    number, unit = _split_unit(value, SIZE_RULE)
    if unit not in _BYTES:
        raise OptionError(f"{SIZE_RULE}; the unit {unit!r} is not known", "units: b, kb, mb, gb, tb")
    size = float(number) * _BYTES[unit]
    if size > LARGEST_SIZE:
        raise OptionError("must be at most 1048576 tb", "a number without a unit is bytes")
    return int(size)


def duration_text(seconds: float) -> str:
    """Format a duration in the shortest way that `parse_duration` reads back: `30 s`, `500 ms`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)} {unit}"
    milliseconds = f"{seconds * 1000:.6f}".rstrip("0").rstrip(".")
    return f"{milliseconds} ms"


def size_text(size: int) -> str:
    """Format a size in the shortest way that `parse_size` reads back: `64 mb`, `100 b`."""
    for unit, factor in (("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} b"


def _split_unit(value: object, rule: str) -> tuple[str, str]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise OptionError(rule)
    match = _NUMBER_UNIT.fullmatch(str(value))
    if match is None:
        raise OptionError(rule)
    return match[1], match[2].lower()


def named(path: str) -> str:
    """Return a path that is not empty; an empty one would mean the base folder itself. Raises OptionError."""
    if not path.strip():
        raise OptionError("must not be empty", "name a file or folder, or leave the option out")
    return path


def zone_name(text: str) -> str:
    """Normalize a time zone in Java's notation: a region, `UTC`, or an offset; `GMT+8` becomes `GMT+08:00`.

    Raises OptionError.
    """
    import zoneinfo

    if re.fullmatch(r"UTC|Z|(?:UTC|GMT)?[+-](?:0\d|1[0-8]):?[0-5]\d", text):
        return text
    if hours := re.fullmatch(r"(UTC|GMT|UT)?([+-])(\d|0\d|1[0-8])", text):  # as Java and Flink CDC read them
        return f"{'GMT' if hours[1] else ''}{hours[2]}{int(hours[3]):02}:00"
    try:
        zoneinfo.ZoneInfo(text)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise OptionError(f"time zone {shown!r} is not known", "write Asia/Shanghai, UTC or GMT+08:00") from error
    return text


def engine_zone(zone: str) -> str:
    """Return the expression engine's name of such a zone: `+08:00` becomes `GMT+08:00`."""
    if zone == "Z":
        return "UTC"
    match = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)", zone)
    return f"GMT{match[1]}{match[2]}:{match[3]}" if match else zone


def arrow_zone(zone: str) -> str:
    """Return Arrow's spelling of a zone that `zone_name` accepts: a region, `UTC`, or `+08:00`."""
    text = re.sub(r"^(UTC|GMT)(?=[+-])", "", zone)
    return "UTC" if text == "Z" else re.sub(r"^([+-]\d\d)(\d\d)$", r"\1:\2", text)


def tzinfo_of(zone: str) -> tzinfo:
    """Return Python's zone for one that `zone_name` accepts."""
    from zoneinfo import ZoneInfo

    offset = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)", zone)
    if offset is None:
        return UTC if zone in ("UTC", "Z") else ZoneInfo(zone)
    length = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(-length if offset[1] == "-" else length)
