"""Files that are no pipelines at all, or hold values that cannot work: exit 2 with a place, at once."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path

import pytest
from together import together

from cdc.errors import PatternTimeout, SpecError
from cdc.pattern import PatternError, TablePattern
from cdc.schema import TableId
from cdc.spec.check import LARGEST_FILE, LARGEST_SECRET, check, check_file
from cdc.spec.reader import MOST_WRITTEN

ROOT = Path(__file__).resolve().parent.parent.parent
SOUND = r"""source:
  type: mysql
  hostname: 127.0.0.1
  username: u
  password: p
  tables: shop.\.*
sink:
  type: values
pipeline:
  schema.change.behavior: evolve
"""


def said(text: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        check("p.yaml", text if isinstance(text, bytes) else text.encode(), env={})
    for line in str(caught.value).splitlines():
        assert re.match(r"p\.yaml:\d+:\d+: ", line)
        assert "Input should" not in line
    return str(caught.value)


def with_source(*lines: str) -> str:
    return SOUND.replace("  tables:", "".join(f"  {line}\n" for line in lines) + "  tables:")


def changed(key: str, value: str) -> str:
    return re.sub(rf"  {key}:.*", lambda _: f"  {key}: {value}", SOUND)


def test_the_file_that_the_others_are_made_of_is_sound() -> None:
    assert check("p.yaml", SOUND.encode(), env={}).warnings == ()


@together("kind", ["fifo", "folder", "device", "endless"])
def test_a_pipeline_file_that_is_no_file(tmp_path: Path, kind: str) -> None:
    path = {"folder": tmp_path, "device": Path("/dev/zero"), "endless": tmp_path / "large"}.get(kind, tmp_path / "fifo")
    if kind == "fifo":
        os.mkfifo(path)
    if kind == "endless":
        path.write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(SpecError, match=rf"^{re.escape(str(path))}:1:1: cannot be read: is (a |larger)"):
        check_file(str(path), env={})


@together("kind", ["fifo", "folder", "device", "large", "nul"])
def test_a_secret_file_that_is_no_file(tmp_path: Path, kind: str) -> None:
    named = {"fifo": "fifo", "folder": ".", "device": "/dev/zero", "large": "large", "nul": "a\\0b"}[kind]
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * (LARGEST_SECRET + 1))
    file = tmp_path / "p.yaml"
    file.write_text(changed("password", f'"${{file:{named}}}"'))
    with pytest.raises(SpecError, match=r"p\.yaml:5:13: source\.password: file .* cannot be read: (is|not)"):
        check_file(str(file), env={})


def test_a_secret_file_may_be_a_link_and_as_large_as_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * LARGEST_SECRET)
    (tmp_path / "link").symlink_to("data")
    file = tmp_path / "p.yaml"
    file.write_text(changed("password", "${file:link}"))
    assert check_file(str(file), env={}).spec.source.password.get_secret_value() == "x" * LARGEST_SECRET  # type: ignore[attr-defined]


DIGITS = "9" * 400


@together(
    "line",
    [
        f"port: {DIGITS}", f"port: 1e{DIGITS}", f"scan.incremental.snapshot.chunk.size: {DIGITS}",
        f"connect.timeout: {DIGITS}", f"connect.timeout: {DIGITS} d", "heartbeat.interval: 31 d",
        f"max-batch-bytes: {DIGITS} gb", f"connect.max-retries: {DIGITS}", f"server-id: {DIGITS * 20}",
        "chunk-key.even-distribution.factor.upper-bound: 1e999", "chunk-key.even-distribution.factor.upper-bound: nan",
        f"scan.snapshot.rows-per-second: {DIGITS}", "scan.snapshot.filters: {shop.a: 5}",
        "scan.startup.table-modes: {shop.a: sometimes}", "allow-public-key-retrieval: perhaps",
    ],
)  # fmt: skip
def test_a_number_or_word_that_cannot_be_meant(line: str) -> None:
    message = said(with_source(line))
    assert message.startswith("p.yaml:6:")
    assert len(message) < 400


@together(
    "host",
    [
        "http://db", "mysql://u@db", "db:3306", "u@db", "db/shop", "'a b'", "a..b", ".", "-db", '"a\\0b"', '"a\\tb"',
        "a" * 300, "db,db2",
    ],
)  # fmt: skip
def test_a_host_name_that_cannot_be_one(host: str) -> None:
    assert "source.hostname: must be a host name or an address" in said(changed("hostname", host))


@together("host", ["db", "db_1.example", "10.0.0.7", "'::1'", "'[::1]'", "db.example.", "xn--bcher-kva", "bücher"])
def test_host_names_that_can(host: str) -> None:
    assert check("p.yaml", changed("hostname", host).encode(), env={}).spec.source.hostname.strip("[]")  # type: ignore[attr-defined]


@together(
    "key, value",
    [
        ("username", '"a\\0b"'), ("username", '"a\\tb"'), ("password", '"a\\0b"'), ("tables", '"shop.a\\0b"'),
        ("tables", '"shop.\\ta"'), ("username", '"a\\nb"'),
    ],
)  # fmt: skip
def test_a_control_character_in_a_name(key: str, value: str) -> None:
    assert re.search(rf"source\.{key}: (must be one line|holds a NUL)", said(changed(key, value)))


def test_a_character_that_turns_text_around_is_refused_where_it_stands() -> None:
    assert "p.yaml:3:14: a character that changes the direction of text (U+202E)" in said(
        changed("hostname", "a\u202eb")
    )


def test_a_tab_is_told_by_where_it_is() -> None:
    assert "p.yaml:6:16: a tab that is not in quotes" in said(changed("tables", "shop.\torders"))
    assert "a tab cannot indent YAML" in said("source:\n\ttype: mysql\n")


def test_a_variable_between_braces_is_to_be_quoted() -> None:
    assert "1:34: a ${...} that is not in quotes" in said("source: {type: mysql, password: ${PW}, tables: a.b}\n")


SPECIFIC = "scan.startup.specific-offset"


@together("gtids", ["nonsense", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5-1", "0-1", "0-1-x"])
def test_a_gtid_set_that_is_none(gtids: str) -> None:
    lines = ("scan.startup.mode: specific-offset", f"{SPECIFIC}.gtid-set: {gtids}")
    assert "gtid-set: is neither a GTID set" in said(with_source(*lines))


@together(
    "lines",
    [
        (f"{SPECIFIC}.file: binlog.000001", f"{SPECIFIC}.pos: 4"),
        (f"{SPECIFIC}.gtid-set: 0-1-5",),
        ("scan.startup.timestamp-millis: 1",),
        ("scan.startup.mode: timestamp", "scan.startup.timestamp-millis: 1", f"{SPECIFIC}.gtid-set: 0-1-5"),
    ],
)
def test_an_offset_without_its_mode(lines: tuple[str, ...]) -> None:
    assert "has no effect with scan.startup.mode" in said(with_source(*lines))


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 1000 + "]" * 1000, "".join(" " * depth + "a:\n" for depth in range(1200)),
        "source: " + "[" * 60 + "]" * 60, "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else 'x'}]\n" for n in range(1200)),
    ],
    ids=["closed", "mappings", "somewhat", "aliases"],
)  # fmt: skip
def test_nesting(text: str) -> None:
    assert said(text).count("nested too deeply") == 1


@pytest.mark.slow
def test_more_values_than_anybody_writes_are_not_read_to_the_end() -> None:
    assert "more than 100000 values" in said("a: [" + "x," * (MOST_WRITTEN + 10) + "]")


def calls(text: str) -> int:
    """How many Python functions are entered while a file is checked: what the time it takes is made of."""
    count = 0

    def profile(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        with pytest.raises(SpecError):
            check("p.yaml", text.encode(), env={})
    finally:
        sys.setprofile(None)
    return count


def unknown_keys(number: int) -> str:
    return with_source(*(f"key{index}: 1" for index in range(number)))


def bad_routes(number: int) -> str:
    return (
        SOUND + "route:\n" + "".join(f"  - {{source-table: a.(b{index}, sink-table: a.b}}\n" for index in range(number))
    )


@pytest.mark.slow
def test_many_mistakes_take_time_in_proportion() -> None:
    for text in (unknown_keys, bad_routes):
        few, many = calls(text(300)), calls(text(1200))
        assert many < 5 * few, text.__name__


@pytest.mark.slow
def test_ten_thousand_unknown_keys_are_all_told() -> None:
    assert said(unknown_keys(10_000)).count("unknown key") == 10_000


@together(
    "pattern, meant",
    [
        ("shop.order_.*", r"shop.order_\.*"), ("shop.*", r"shop.\.*"), ("*", r"\.*.\.*"), ("*.*", r"\.*.\.*"),
        (".*", r"\.*.\.*"), (".*.*", r"\.*.\.*"), ("*.orders", r"\.*.orders"), ("shop.order_.+", r"shop.order_\.+"),
    ],
)  # fmt: skip
def test_the_pattern_that_is_suggested_is_the_one_that_is_meant(pattern: str, meant: str) -> None:
    with pytest.raises(PatternError) as caught:
        TablePattern(pattern)
    assert caught.value.hint.startswith(f"did you mean `{meant}`?")
    assert TablePattern(meant).fewest_parts == 2
    assert TablePattern(meant).matches(TableId("shop", "orders" if "order_" not in pattern else "order_1"))


def test_a_pattern_that_goes_back_and_forth_without_end_is_stopped() -> None:
    slow = TablePattern("shop.(a|aa)+b")
    assert slow.matches(TableId("shop", "aab"))
    done = threading.Event()

    def ask() -> None:
        with pytest.raises(PatternTimeout, match=r"shop\.\(a\|aa\)\+b.*takes too long"):
            slow.matches(TableId("shop", "a" * 64))
        done.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60)
    assert done.is_set()


@together("name", ["a" * 64, "ab" * 32, "orders_2024"])
@together("text", [r"(a|b)+", r"(orders|items)_[0-9]{4}", r"(?:a?){4}b*", r"(a\.*|b)*", r"([^_]+)_(\d+)"])
def test_patterns_mean_the_same_however_they_are_compared(text: str, name: str) -> None:
    expected = re.fullmatch(text.replace(r"\.", "."), name, re.IGNORECASE) is not None
    assert TablePattern(f"shop.{text}").matches(TableId("shop", name)) is expected


def test_many_rules_for_many_tables_are_compared_once() -> None:
    count = 400
    rules = "".join(f"- {{source-table: a.b{number % (count - 1)}, filter: a > 1}}\n" for number in range(count))
    text = f"source: {{type: values, rows: []}}\nsink: {{type: values}}\ntransform:\n{rules}"
    warnings = check("p.yaml", text.encode(), env={}).warnings
    assert [each.path for each in warnings] == [f"transform[{count - 1}].source-table"]
