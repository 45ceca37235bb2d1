"""`make chaos`: columns of every type made into every other type, on both servers, by sessions strict and lax.

A seed takes some of the pairs of `column_kinds`, with rows of random values in a table each, alters all of them, and
compares source and sink: DuckDB, and the stand-ins of Doris and StarRocks. A server that refuses a change leaves the
table as it was; no other table may stop the pipeline or end unequal.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from random import Random

import comparison
import load_comparison
import pymysql
from cdc_process import Pipeline, mysql_pipeline
from column_kinds import Kind, kinds_of
from direct import DirectRuns
from load_pipeline import KINDS, LoadPipeline, finished, own_standin

from cdc.errors import CdcError
from cdc.source import Limits
from cdc_services.server import MySqlServer

SINKS = ("duckdb", *KINDS)
_BYTES = ("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BIT", "GEOMETRY", "POINT", "VECTOR")
_ROWS = 6
_LIMITS = Limits(1 << 28, 10**6)
_MODES = ("", "STRICT_TRANS_TABLES")
Pair = tuple[Kind, Kind]


def pairs_of(flavor: str, rng: Random, count: int) -> list[Pair]:
    """Some of all pairs of a server's types, but for those that cannot be compared."""
    pairs = itertools.permutations(kinds_of(flavor), 2)
    return rng.sample([pair for pair in pairs if not (_unchecked(*pair) or _without_zero(*pair))], count)


def _without_zero(before: Kind, after: Kind) -> bool:
    """The stand-ins keep rows in DuckDB, whose text of such a DECIMAL has no zero before the point."""
    return before.declaration == "DECIMAL(30,30)" and any(word in after.declaration for word in ("CHAR", "TEXT"))


def _unchecked(before: Kind, after: Kind) -> bool:
    """Servers take any bytes for text of these character sets and for a VECTOR, and cut texts inside of a character;
    the copy then stops at what is none, and names it."""
    any_bytes = before.declaration.startswith(_BYTES)
    cut = after.declaration == "TINYTEXT" and before.declaration.endswith(("TEXT", "VARCHAR(300)"))
    return cut or (any_bytes and ("CHARACTER SET" in after.declaration or after.declaration.startswith("VECTOR")))


def differing_pairs(server: MySqlServer, sink: str, seed: int, folder: Path, count: int = 120) -> str:
    """What is not equal after one seed's changes; empty when everything is."""
    rng = Random(seed)
    pairs = pairs_of(server.flavor, rng, count)
    database = server.new_database("pairs")
    for number, (before, _) in enumerate(pairs):
        _fill(server, database, f"t{number:03}", before, rng)
    made: Pipeline = mysql_pipeline(folder, server, rf"{database}.\.*")
    with ExitStack() as stack:
        standin = None if sink == "duckdb" else stack.enter_context(own_standin(sink))
        if standin is not None:
            made = LoadPipeline(made.folder, made.source, made.password, standin=standin)
        runs = DirectRuns(made)
        try:
            runs.catch_up(_LIMITS)
            taken = _alter(server, database, pairs, rng)
            runs.catch_up(_LIMITS)
        except CdcError as error:
            return f"stopped: {error}"
        if standin is None:
            found = comparison.differences(server, made, [database])
        else:
            finished(standin)
            found = load_comparison.differences(server, standin, [database])
        server.execute(f"DROP DATABASE `{database}`")
    return "\n".join(f"{line}\n{_told(line, taken)}" for line in found)


def _fill(server: MySqlServer, database: str, table: str, kind: Kind, rng: Random) -> None:
    values = [*(kind.literal(rng) for _ in range(_ROWS)), "NULL"]
    server.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES'", f"CREATE TABLE {table} (id INT PRIMARY KEY, c {kind.declaration})",
        *(f"INSERT IGNORE INTO {table} VALUES ({id_}, {value})" for id_, value in enumerate(values)), database=database,
    )  # fmt: skip


def _alter(server: MySqlServer, database: str, pairs: list[Pair], rng: Random) -> dict[str, str]:
    """The changes that the server took, by their tables."""
    taken = {}
    for number, (_, after) in enumerate(pairs):
        mode, null = rng.choice(_MODES), rng.choice(["", "", "", " NOT NULL"])
        declaration = after.declaration.removesuffix(" NULL") + (null or " NULL")
        change = f"ALTER TABLE t{number:03} MODIFY c {declaration}"
        try:
            server.execute(f"SET sql_mode = '{mode}', time_zone = '+05:00'", change, database=database)
        except pymysql.MySQLError:
            continue
        taken[f"t{number:03}"] = f"{pairs[number][0].declaration} -> {declaration} ({mode or 'lax'})"
    return taken


def _told(line: str, taken: dict[str, str]) -> str:
    table = line.partition(":")[0].rpartition(".")[2]
    return f"  {taken.get(table, 'not altered')}"
