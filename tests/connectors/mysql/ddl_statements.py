"""The statements of tests/fixtures/ddl, read from their files, and how a server takes them.

A statement ends with `;` at the end of a line. Lines above it may say:

    -- @mysql, -- @mariadb     only this server takes part
    -- @refused                the server must refuse it
    -- @mode ANSI_QUOTES       sql_mode from here on; empty means the server's own
    -- @timestamps off         explicit_defaults_for_timestamp from here on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "ddl"
FILES = sorted(FOLDER.glob("*.sql"))
MODES = {
    "REAL_AS_FLOAT": 1, "ANSI_QUOTES": 1 << 2, "ORACLE": 1 << 9, "MSSQL": 1 << 10, "MAXDB": 1 << 12,
    "NO_BACKSLASH_ESCAPES": 1 << 20,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    sql: str
    line: int
    flavors: tuple[str, ...] = ("mysql", "mariadb")
    refused: bool = False
    mode: str = ""
    timestamps: str = "on"


def read_cases(path: Path) -> Iterator[Case]:
    only: tuple[str, ...] = ()
    refused, mode, timestamps, pending, start = False, "", "on", [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        word, _, value = line.removeprefix("-- @").partition(" ")
        if not pending and (not line.strip() or line.startswith("--")):
            if not line.startswith("-- @"):
                continue
            if word in ("mysql", "mariadb"):
                only = (*only, word)
            elif word == "refused":
                refused = True
            elif word == "mode":
                mode = value
            else:
                assert word == "timestamps", f"{path.name}:{number}: unknown mark {word}"
                timestamps = value
            continue
        start = start or number
        pending.append(line)
        if line.rstrip().endswith(";"):
            sql = "\n".join(pending).rstrip().removesuffix(";")
            yield Case(sql, start, only or ("mysql", "mariadb"), refused, mode, timestamps)
            only, refused, pending, start = (), False, [], 0


def mode_bits(sql_mode: str) -> int:
    """The bits that matter here of a server's @@sql_mode."""
    return sum(MODES.get(name, 0) for name in sql_mode.split(","))
