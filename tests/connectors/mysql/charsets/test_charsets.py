"""Character sets against the real servers: every one- and two-byte sequence, the EUC and GB 18030 longer ones, ids."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from together import together

from cdc.errors import UnsupportedChange
from cdc_services.server import MySqlServer
from connectors.mysql.charsets.conversion import IDENTITY, KNOWN, canonical, to_utf8
from connectors.mysql.charsets.tables import CODECS
from connectors.mysql.rows.collations import charset_of

MULTIBYTE = sorted(["big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"])
ONE_BYTE = sorted(CODECS.keys() - set(MULTIBYTE))


def texts(values: list[bytes | None], charset: str) -> list[str | None]:
    result = to_utf8(pa.array(values, pa.binary()), charset)
    result.validate(full=True)
    return result.to_pylist()


def refused(value: bytes, charset: str) -> bool:
    try:
        texts([value], charset)
    except UnsupportedChange:
        return True
    return False


def server_texts(server: MySqlServer, charset: str, values: list[bytes]) -> dict[bytes, str | None]:
    """What the server reads the bytes as; None, `?` in it, or nothing at all where it cannot."""
    connection = server.connect(database=server.new_database("charset"))
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE v (b VARBINARY(4) PRIMARY KEY)")
        for first in range(0, len(values), 5_000):
            rows = ",".join(f"(x'{value.hex()}')" for value in values[first : first + 5_000])
            cursor.execute(f"INSERT INTO v VALUES {rows}")
        cursor.execute(f"SELECT b, CONVERT(CONVERT(b USING {charset}) USING utf8mb4) FROM v")
        return dict(cursor.fetchall())


def sequences(charset: str) -> Iterator[bytes]:
    yield from (bytes([a]) for a in range(256))
    if charset in MULTIBYTE:
        yield from (bytes([a, b]) for a in range(0x80, 0x100) for b in range(0x100))
    if charset in ("ujis", "eucjpms"):
        yield from (bytes([0x8F, a, b]) for a in range(0xA0, 0x100) for b in range(0xA0, 0x100))
    if charset == "gb18030":
        rnd = random.Random(1)
        for first, last in ((0x81, 0x84), (0x90, 0xE3)):
            for _ in range(10_000):
                yield bytes(
                    (
                        rnd.randint(first, last),
                        rnd.randint(0x30, 0x39),
                        rnd.randint(0x81, 0xFE),
                        rnd.randint(0x30, 0x39),
                    )
                )


@pytest.mark.mysql
@pytest.mark.parametrize("charset", [*ONE_BYTE, *MULTIBYTE])
def test_every_sequence_reads_as_the_server_reads_it(any_server: MySqlServer, charset: str) -> None:
    if charset == "gb18030" and any_server.flavor == "mariadb":
        pytest.skip("MariaDB has no gb18030")
    expected = server_texts(any_server, charset, sorted(set(sequences(charset))))
    sound = {value: text for value, text in expected.items() if text and text.count("?") == value.count(b"?")}
    assert texts(list(sound), charset) == list(sound.values())
    assert len(sound) > 100
    unsound = sorted(expected.keys() - sound.keys())
    for value in random.Random(2).sample(unsound, min(300, len(unsound))):
        assert refused(value, charset)


@pytest.mark.mysql
@pytest.mark.parametrize("charset", sorted(KNOWN - {"binary", "ascii"}))
def test_text_that_the_server_wrote_reads_back(any_server: MySqlServer, charset: str) -> None:
    if charset == "gb18030" and any_server.flavor == "mariadb":
        pytest.skip("MariaDB has no gb18030")
    rnd = random.Random(3)
    spans = (
        (0x20, 0x7E),
        (0xA0, 0x24F),
        (0x370, 0x5FF),
        (0x3040, 0x30FF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0x1F600, 0x1F64F),
    )
    written = ["".join(chr(rnd.randint(*rnd.choice(spans))) for _ in range(12)) for _ in range(300)]
    stored: list[bytes] = []
    shown: list[str] = []
    connection = any_server.connect()
    with connection, connection.cursor() as cursor:
        for text in written:
            own = f"CONVERT(%s USING {charset})"
            cursor.execute(f"SELECT CAST({own} AS BINARY), CONVERT({own} USING utf8mb4)", (text, text))
            row: tuple[Any, ...] = cursor.fetchall()[0]
            stored.append(row[0])
            shown.append(row[1])
    assert texts(list(stored), charset) == shown


@pytest.mark.mysql
def test_every_collation_id_has_the_servers_character_set(any_server: MySqlServer) -> None:
    source = "collations" if any_server.flavor == "mysql" else "collation_character_set_applicability"
    rows = any_server.execute(f"SELECT id, character_set_name FROM information_schema.{source} WHERE id IS NOT NULL")
    assert len(rows) > 200
    assert {number: charset_of(number) for number, _ in rows} == dict(rows)
    assert {charset for _, charset in rows} <= KNOWN


@together("number", [0, -1, 17, 1024, 1041, 100_000])
def test_an_unknown_collation_id_has_no_character_set(number: int) -> None:
    assert charset_of(number) is None


def test_nulls_slices_and_empty_arrays() -> None:
    array = pa.array([b"\xe9", None, b"", b"\xff" * 3, b"plain text, long"], pa.binary())
    assert to_utf8(array, "latin1").to_pylist() == ["é", None, "", "ÿÿÿ", "plain text, long"]
    assert to_utf8(array[1:4], "latin1").to_pylist() == [None, "", "ÿÿÿ"]
    assert to_utf8(array[3:], "latin1").to_pylist() == ["ÿÿÿ", "plain text, long"]
    assert texts([], "latin1") == []
    assert texts([None, None], "sjis") == [None, None]
    assert to_utf8(pa.array(["aé".encode("utf-16-be"), None], pa.binary())[0:2], "utf16").to_pylist() == ["aé", None]


def test_bytes_hidden_under_a_null_are_not_read() -> None:
    offsets, data = pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\x98a")
    array = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    assert to_utf8(array, "cp1251").to_pylist() == [None, "a"]


@together("charset", sorted(IDENTITY))
def test_sets_that_are_utf8_already_are_not_copied(charset: str) -> None:
    array = pa.array([b"a", None, "é".encode()], pa.binary())[1:]
    result = to_utf8(array, charset)
    assert result.to_pylist() == [None, "é"]
    assert result.buffers()[2].address == array.buffers()[2].address


@together(
    "charset, value",
    [
        ("cp1251", b"ok\x98"), ("sjis", b"a\x81"), ("gbk", b"\x81\x20"), ("ucs2", b"\xd8\x00"), ("ucs2", b"a"),
        ("utf16", b"\xd8\x3d\x00a"), ("utf16le", b"\x00\xdc"), ("utf32", b"\x00\x11\x00\x00"), ("ujis", b"\x8f\xa2"),
        ("gb18030", b"\x84\x31\xa5\x30"), ("gb18030", b"\xe3\x32\x9a\x36"), ("gb18030", b"\x81\x30\x81"),
        ("swe7", b"\x80"), ("ascii", b"plain text, a\x80"),
    ],
)  # fmt: skip
def test_bytes_without_a_character_are_refused_with_the_bytes(charset: str, value: bytes) -> None:
    with pytest.raises(UnsupportedChange, match=f"0x{value.hex()} are not text in character set {charset}"):
        texts([b"", value], charset)
    found: list[int] = []
    kept, replaced = to_utf8(pa.array([b"", value], pa.binary()), charset, found.append).to_pylist()
    assert (kept, found) == ("", [1])
    assert replaced.count("\ufffd") == 1


@together("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"12345678\x80"])
def test_what_servers_keep_as_utf8_and_is_none_is_refused_or_replaced(bad: bytes) -> None:
    array = pa.array([b"fine", None, "é😀".encode() + bad, bad], pa.binary())[1:]
    with pytest.raises(UnsupportedChange, match=f"{bad.hex()} are not text in character set utf8mb4"):
        to_utf8(array, "utf8mb4")
    found: list[int] = []
    none, text, replaced = to_utf8(array, "utf8mb4", found.append).to_pylist()
    assert (none, text, found) == (None, "é😀" + replaced, [2])
    assert "\ufffd" in replaced


def test_names() -> None:
    assert canonical("UTF8") == "utf8mb3"
    assert canonical("Latin1") == "latin1"
    with pytest.raises(UnsupportedChange, match="'klingon' is not known"):
        to_utf8(pa.array([b""], pa.binary()), "klingon")
