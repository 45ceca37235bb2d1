"""Every column type on both servers: a row read by SELECT equals the row decoded from the log, array by array."""

from __future__ import annotations

import random

import pytest
from column_kinds import Kind, kinds_of
from decoded import decode, definitions, logged
from snapshot_reads import read_all

from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.value_rules import ValueRules

pytestmark = pytest.mark.mysql

_ROWS = 40
_MORE = (
    Kind("DECIMAL(12,3) ZEROFILL", lambda rng: f"{rng.randrange(10**9)}.{rng.randrange(1000):03}"),
    Kind("DECIMAL(65,30) ZEROFILL", lambda rng: f"{rng.randrange(10 ** rng.randrange(1, 35))}.5"),
    Kind("DECIMAL(40,30)", lambda rng: rng.choice(["-0.00000000000000000000000000000000000000001", "0", "-0.5"])),
    Kind("DECIMAL(19,0)", lambda rng: str(rng.choice([-(10**19) + 1, 10**19 - 1, 10**18, -(10**18), 7]))),
    Kind("FLOAT(7,3)", lambda rng: repr(rng.uniform(-9999, 9999))),
    Kind("FLOAT UNSIGNED ZEROFILL", lambda rng: repr(rng.uniform(0, 9999))),
    Kind("DOUBLE(10,2) ZEROFILL", lambda rng: repr(rng.uniform(0, 9999))),
    Kind("BIGINT ZEROFILL", lambda rng: str(rng.getrandbits(64))),
    Kind("YEAR(4)", lambda rng: str(rng.choice([0, 1901, 2155]))),
    Kind("ENUM('x','中') CHARACTER SET utf16", lambda rng: rng.choice(["'x'", "'中'"])),
    Kind("SET('é','x','ß') CHARACTER SET latin1", lambda rng: rng.choice(["'é,ß'", "'x'", "''"])),
    Kind("CHAR(4) CHARACTER SET latin1 COLLATE latin1_bin", lambda rng: rng.choice(["'a  '", "'  '", "''", "' a\\0'"])),
    Kind("CHAR(4) CHARACTER SET ucs2", lambda rng: rng.choice(["'a  '", "'  '", "'中 '"])),
    Kind("TEXT CHARACTER SET gb18030", lambda rng: "'中€'", flavor="mysql"),
    Kind("VARCHAR(40) CHARACTER SET koi8r", lambda rng: "'ЖдЯ'"),
    Kind("VARCHAR(40) CHARACTER SET cp932", lambda rng: "'日本語①'"),
    Kind("MULTIPOLYGON", lambda rng: "ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))')"),
    Kind("VARCHAR(300) COMPRESSED", lambda rng: f"'{'abc ' * rng.randrange(60)}'", flavor="mariadb"),
    Kind("YEAR(2)", lambda rng: str(rng.choice([0, 1970, 1999, 2000, 2069, "'0'", 69, 70])), flavor="mariadb"),
    Kind("BLOB COMPRESSED", lambda rng: f"x'{'00ff' * rng.randrange(300)}'", flavor="mariadb"),
)
"""Kinds beside those of `column_kinds`: what the two ways of reading might show differently."""


def _literals(kind: Kind, rng: random.Random) -> list[str]:
    return ["NULL" if rng.random() < 0.15 else kind.literal(rng) for _ in range(_ROWS)]


@pytest.mark.parametrize("boolean", [False, True])
def test_a_row_is_the_same_from_the_log_and_from_a_query(any_server: MySqlServer, boolean: bool) -> None:
    rng = random.Random(11 + boolean)
    database = any_server.new_database("kinds")
    kinds = [*kinds_of(any_server.flavor), *(kind for kind in _MORE if kind.flavor in (None, any_server.flavor))]
    # Few columns per table: rows of 40 TEXT columns would not fit, and a difference is found faster.
    tables = [kinds[first : first + 12] for first in range(0, len(kinds), 12)]
    for number, part in enumerate(tables):
        columns = ", ".join(f"c{index} {kind.declaration} NULL" for index, kind in enumerate(part))
        any_server.execute(f"CREATE TABLE `{database}`.t{number} (id INT PRIMARY KEY, {columns})")
    with logged(any_server) as chunks:
        for number, part in enumerate(tables):
            values = [_literals(kind, rng) for kind in part]
            rows = ", ".join(f"({row}, {', '.join(column[row] for column in values)})" for row in range(_ROWS))
            any_server.execute(
                "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+02:00'",
                f"INSERT IGNORE INTO `{database}`.t{number} VALUES {rows}",
            )
    known, rules = definitions(any_server, database), ValueRules(tinyint1_as_boolean=boolean)
    from_log = decode(known, chunks, database=database, rules=rules)
    counts = {}
    for number, part in enumerate(tables):
        table = TableId(database, f"t{number}")
        read = read_all(any_server, known[table], "id", rules)
        counts.update(read.counts)
        expected = from_log.table(table)
        assert expected.num_rows == _ROWS
        assert read.table.schema == expected.schema
        for index, column in enumerate(expected.columns):
            name = "id" if index == 0 else part[index - 1].declaration
            found = read.table.column(index).combine_chunks()
            assert found.equals(column.combine_chunks()), (name, found, column)
            assert found.null_count == column.null_count
    assert counts == from_log.counts
    assert any(name.startswith("invalid-date-to-null") for name in counts)
