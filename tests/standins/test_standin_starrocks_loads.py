"""Plain stream loads: redirects, logins, headers, labels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starrocks_servers import STRICT, StarRocksServer

pytestmark = pytest.mark.slow
COMMA = {"column_separator": ","}


@pytest.fixture
def database(starrocks: StarRocksServer) -> Iterator[str]:
    name = starrocks.new_database()
    starrocks.query(f"CREATE TABLE {name}.t (id INT NOT NULL, v VARCHAR(10)) PRIMARY KEY(id)")
    yield name
    starrocks.query(f"DROP DATABASE {name} FORCE")


def test_the_front_end_redirects_to_a_back_end(starrocks: StarRocksServer, database: str) -> None:
    answer = starrocks.send("PUT", f"/api/{database}/t/_stream_load?a=b", follow=False)
    assert (answer.status, answer.text) == (307, "")
    assert answer.headers["Location"].endswith(f"/api/{database}/t/_stream_load?a=b")
    assert "@" not in answer.headers["Location"]


def test_without_100_continue_the_front_end_refuses_with_http_200(starrocks: StarRocksServer, database: str) -> None:
    answer = starrocks.send("PUT", f"/api/{database}/t/_stream_load", {"Expect": ""})
    assert (answer.status, answer["Status"]) == (200, "FAILED")
    assert answer["Message"] == "class com.starrocks.common.DdlException: There is no 100-continue header"


def test_a_load_and_its_answer(starrocks: StarRocksServer, database: str) -> None:
    answer = starrocks.load(database, b"1,a\n2,b\n", **COMMA, label="first")
    assert list(answer.json) == [
        "TxnId", "Label", "Status", "Message", "NumberTotalRows", "NumberLoadedRows", "NumberFilteredRows",
        "NumberUnselectedRows", "LoadBytes", "LoadTimeMs", "BeginTxnTimeMs", "StreamLoadPlanTimeMs", "ReadDataTimeMs",
        "WriteDataTimeMs", "CommitAndPublishTimeMs",
    ]  # fmt: skip
    assert (answer["Status"], answer["Message"], answer["LoadBytes"]) == ("Success", "OK", 8)
    again = starrocks.load(database, b"1,x\n", **COMMA, label="first")
    assert (again["Status"], again["ExistingJobStatus"], again["TxnId"]) == ("Label Already Exists", "FINISHED", -1)
    assert starrocks.query(f"SELECT v FROM {database}.t ORDER BY id") == [("a",), ("b",)]


def test_a_failed_load_frees_its_label(starrocks: StarRocksServer, database: str) -> None:
    assert starrocks.load(database, b"x,a\n", **COMMA, label="first")["Status"] == "Fail"
    assert starrocks.state(database, "first") == "ABORTED"
    assert starrocks.load(database, b"1,a\n", **COMMA, label="first")["Status"] == "Success"


def test_without_a_label_one_is_made(starrocks: StarRocksServer, database: str) -> None:
    assert len(starrocks.load(database, b"1,a\n", **COMMA)["Label"]) >= 32


def test_the_back_end_takes_loads_directly(starrocks: StarRocksServer, database: str) -> None:
    path, port = f"/api/{database}/t/_stream_load", starrocks.be_http_port
    answer = starrocks.send("PUT", path, {**COMMA, **STRICT, "Expect": ""}, b"1,a\n", port=port)
    assert answer["Status"] == "Success"


def test_wrong_passwords(starrocks: StarRocksServer, database: str) -> None:
    path = f"/api/{database}/t/_stream_load"
    refused = starrocks.send("PUT", path, login=("root", "wrong"))
    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Basic realm=""')
    assert (refused["status"], refused["code"]) == ("FAILED", "1")
    at_back_end = starrocks.send("PUT", path, port=starrocks.be_http_port, login=("root", "wrong"))
    assert (at_back_end.status, at_back_end["Status"]) == (200, "Fail")


def test_a_user_needs_the_insert_privilege(starrocks: StarRocksServer, database: str) -> None:
    user = f"u_{database}"
    starrocks.query(f"CREATE USER {user} IDENTIFIED BY 'pw'")
    login = (user, "pw")
    headers = {**COMMA, **STRICT, "label": "mine"}
    path = f"/api/{database}/t/_stream_load"
    assert starrocks.send("PUT", path, headers, b"1,a\n", login=login).status == 401
    begin = {"db": database, "table": "t", "label": "txn"}
    denied = starrocks.send("POST", "/api/transaction/begin", begin, login=login)
    assert denied.status == 401 or denied["Status"] != "OK"
    starrocks.query(f"GRANT INSERT ON TABLE {database}.t TO USER {user}")
    assert starrocks.send("PUT", path, headers, b"1,a\n", login=login)["Status"] == "Success"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"format": "json"}, "the stand-in reads only csv, not json"),
        ({"strict_mode": "false"}, "the stand-in knows only loads with strict_mode: true"),
        ({"compression": "bzip2"}, "unsupported compression type BZIP2"),
        ({"partial_update": "true"}, "the stand-in does not know the header partial_update"),
        ({"column_separator": "\\x0"}, "the stand-in knows only a column_separator of one byte"),
        ({"label": "a b"}, "Label format error"),
        ({"timeout": "0"}, "timeout"),
        ({"max_filter_ratio": "2"}, "max_filter_ratio"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_headers_that_are_refused(
    starrocks: StarRocksServer, database: str, headers: dict[str, str], message: str
) -> None:
    answer = starrocks.send("PUT", f"/api/{database}/t/_stream_load", {**COMMA, **STRICT, **headers}, b"1,a\n")
    assert answer["Status"] == "Fail"
    assert message in answer["Message"]


def test_a_large_load_comes_in_windows(starrocks: StarRocksServer, database: str) -> None:
    rows = b"".join(b"%d,value %d\x02" % (number, number % 999) for number in range(220_000))
    answer = starrocks.load(database, rows, **COMMA, row_delimiter="\\x02")
    assert (answer["Status"], answer["NumberLoadedRows"]) == ("Success", 220_000)
    found = starrocks.query(f"SELECT count(*), max(id), count(DISTINCT v) FROM {database}.t")
    assert found == [(220_000, 219_999, 999)]
