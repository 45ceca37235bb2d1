"""What happens to rows: `columns` and `__op`, values that are none, limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from load_servers import Answer
from starrocks_servers import StarRocksServer

pytestmark = pytest.mark.slow


@pytest.fixture
def database(starrocks: StarRocksServer) -> Iterator[str]:
    name = starrocks.new_database()
    yield name
    starrocks.query(f"DROP DATABASE {name} FORCE")


def table(server: StarRocksServer, database: str, columns: str, *, keys: str = "PRIMARY KEY(id)") -> None:
    server.query(f"CREATE TABLE {database}.t ({columns}) {keys}")


def strict(server: StarRocksServer, database: str, body: bytes, **headers: str) -> Answer:
    given = {"column_separator": "\\x01", "row_delimiter": "\\x02", **headers}
    return server.load(database, body, **given)


def test_what_is_no_value_is_filtered(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, ti TINYINT")
    filtered = strict(starrocks, database, b"1\x01128\x02", columns="id,ti")
    assert (filtered["Status"], filtered["Message"]) == ("Fail", "too many filtered rows")
    assert (filtered["NumberTotalRows"], filtered["NumberFilteredRows"]) in ((1, 1), (0, 0))


def test_null_is_backslash_n_alone(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v VARCHAR(9)")
    answer = strict(starrocks, database, b"1\x01\\N\x022\x01\x023\x01\\n\x024\x01 \\N\x025\x01\\\\N\x02")
    assert answer["NumberLoadedRows"] == 5
    rows = starrocks.query(f"SELECT id, v FROM {database}.t ORDER BY id")
    assert rows == [(1, None), (2, ""), (3, "\\n"), (4, " \\N"), (5, "\\\\N")]


def test_null_in_a_column_that_must_not_be_is_filtered(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v INT NOT NULL")
    assert strict(starrocks, database, b"1\x01\\N\x02")["Message"] == "too many filtered rows"


def test_a_delete_needs_the_columns_that_must_not_be_null(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v INT NOT NULL")
    strict(starrocks, database, b"1\x011\x022\x012\x02")
    assert strict(starrocks, database, b"1\x01\\N\x011\x02", columns="id,v,__op")["Status"] == "Fail"
    assert strict(starrocks, database, b"1\x010\x011\x02", columns="id,v,__op")["Status"] == "Success"
    assert starrocks.query(f"SELECT id FROM {database}.t") == [(2,)]


def test_the_last_row_of_a_key_wins(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v VARCHAR(9)")
    body = b"1\x01a\x010\x021\x01b\x010\x022\x01c\x010\x022\x01c\x011\x023\x01d\x011\x023\x01e\x010\x02"
    assert strict(starrocks, database, body, columns="id,v,__op")["NumberLoadedRows"] == 6
    assert starrocks.query(f"SELECT id, v FROM {database}.t ORDER BY id") == [(1, "b"), (3, "e")]


def test_rows_of_another_width_or_no_utf8_are_filtered(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v VARCHAR(9)")
    body = b"1\x01a\x01b\x02\x02\x02\x01\x022\x01\xff\x023\x01ok\x02"
    answer = strict(starrocks, database, body)
    assert answer["Message"] == "too many filtered rows"
    log = starrocks.send("GET", "/" + answer["ErrorURL"].split("/", 3)[3], port=starrocks.be_http_port).text
    assert [line.partition(".")[0] for line in log.splitlines()] == [
        "Error: Invalid UTF-8 row", "Error: Value count does not match column count",
        "Error: The field (name = id, pos = 0) is out of range",
    ]  # fmt: skip


def test_a_long_key_fails_the_whole_load(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "k VARCHAR(200) NOT NULL", keys="PRIMARY KEY(k)")
    assert strict(starrocks, database, b"x" * 128 + b"\x02")["Status"] == "Success"
    answer = strict(starrocks, database, b"y\x02" + b"x" * 129 + b"\x02")
    assert (answer["Status"], answer["Message"]) == ("Fail", "primary key size exceed the limit.")


def test_no_field_is_longer_than_the_longest_varchar(starrocks: StarRocksServer, database: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v VARBINARY")
    for size, status in ((524_288, "Success"), (524_289, "Fail")):  # in hex twice as many
        body = b"1\x01" + b"00" * size + b"\x02"
        assert strict(starrocks, database, body, columns="id,x,v=unhex(x)")["Status"] == status


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id,x,v=reverse_all(x)", "No matching function with signature: reverse_all(varchar)."),
        ("id,v=unhex(y)", "unknown reference column, column=v, reference=y"),
        ("id,x,z=unhex(x)", "Mapping column is not in table. column: z"),
    ],
)
def test_plans_that_cannot_be_made(starrocks: StarRocksServer, database: str, columns: str, message: str) -> None:
    table(starrocks, database, "id INT NOT NULL, v VARCHAR(9)")
    answer = strict(starrocks, database, b"1\x01a\x02", columns=columns)
    assert answer["Status"] == "Fail"
    assert message in answer["Message"]
