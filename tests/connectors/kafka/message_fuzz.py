"""Mutations of recorded messages through the Kafka source.

Any bytes in a topic end in a row, a counted skip, a dead letter or an error that names topic, partition and offset.
Never in another error, in columns that are none, or in no end. `make chaos` does a million of them.

    PYTHONPATH=tests:tests/connectors/kafka:tests/devservers python -m message_fuzz --count 100000 --seed 7
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kafka_log import Follower, Record, TopicLog
from recorded import theirs
from schema_registry import SchemaRegistry

from cdc.errors import CdcError
from cdc.schema import CreateTable, SchemaChange

SIZE = 16
"""Mutated messages in a group."""
_HANG_S = 60
_PLACE = re.compile(r"[\w.-]+-\d+@\d+")
_ODD: tuple[Any, ...] = (
    None, "", "x", 0, -1, 5, 1.5, 10**18, 2**63, 2**64 - 1, -(2**63) - 1, 10**40, True, False, [], {}, [1], [None],
    [[]], {"": 1}, {"a": {"a": {}}}, "\x00", "aö", "\ud800", "\ufffd", " ", "0000-00-00", "2026-13-45", "NaN", "id",
    "ID", "AQ==", "!", "-", "1e400", "INSERT", "DELETE", "d", "t", "m", "float32", "struct", "array",
    "org.apache.kafka.connect.data.Decimal", "io.debezium.time.Date", "int(", "decimal(99,99)", "enum('a", "bit(0)",
    "ALTER TABLE t DROP COLUMN a", "x" * 300,
)  # fmt: skip
_RAW = (b"1e400", b"-", b"01", b"NaN", b"1" * 400, b'"\\ud800"', b'"\\x"', b'"\xff"', b"[1", b"{", b"nul", b'"', b"")
"""Values that no writer of JSON makes."""


@dataclass(frozen=True)
class Recording:
    """Messages of one topic as a tool wrote them, and the options they are read with."""

    name: str
    records: tuple[Record, ...]
    options: dict[str, Any]


def recordings(registry: SchemaRegistry) -> list[Recording]:
    """All recorded topics. Schemas in Avro go to the registry."""
    found = []
    for name, value_format in (
        ("canal-json", "canal-json"), ("maxwell-json", "maxwell-json"), ("debezium-json", "debezium-json"),
        ("debezium-json-schema", "debezium-json"), ("debezium-schema-changes", "debezium-json"),
        ("debezium-avro", "debezium-avro"),
    ):  # fmt: skip
        topics: dict[str, list[Record]] = {}
        for line in theirs(f"{name}.jsonl"):
            if "schema_id" in line:
                registry.add(line["schema"], line["schema_id"])
            elif "topic" in line:
                read: Callable[[str], bytes] = b64decode if value_format == "debezium-avro" else str.encode
                key, value = (None if text is None else read(text) for text in (line["key"], line["value"]))
                topics.setdefault(line["topic"], []).append((key, value))
            else:
                topics.setdefault("topic", []).append((None, json.dumps(line).encode()))
        options = {"value.format": value_format}
        if value_format == "debezium-avro":
            options["schema-registry.url"] = registry.url
        found += [Recording(f"{name} {topic}", tuple(records), options) for topic, records in topics.items()]
    rows = tuple((key, _row(value)) for key, value in next(item for item in found if "all_types" in item.name).records)
    return [*found, Recording("json rows", rows, {"value.format": "json"})]


def _row(value: bytes | None) -> bytes | None:
    """The row of a message of Debezium without a schema."""
    after = json.loads(value)["after"] if value is not None else None
    return None if after is None else json.dumps(after).encode()


def mutated(chance: Random, record: Record) -> Record:
    """The record with something in it that its tool does not write."""
    key, value = record
    kind = chance.random()
    if kind < 0.03:
        return value, key
    if kind < 0.06:
        return key, None
    if kind < 0.25 and key is not None:
        return _changed(chance, key), value
    return key, _changed(chance, value or b"{}")


def _changed(chance: Random, text: bytes) -> bytes:
    for _ in range(1 + (chance.random() < 0.2)):
        text = _damaged(chance, text) if chance.random() < 0.25 or text[:1] == b"\0" else _reshaped(chance, text)
    return text


def _damaged(chance: Random, text: bytes) -> bytes:
    """Other bytes, fewer or more."""
    at = chance.randrange(len(text) + 1)
    match chance.randrange(5):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
        case 2:
            return text[:at] + text[at + chance.randrange(1, 9) :]
        case 3:
            return text[:at] + chance.choice((b'"', b"\\", b",", b"}", b"]", b"\0", b"\xff", b"{", b":")) + text[at:]
        case _:
            return text + text[at:]


def _reshaped(chance: Random, text: bytes) -> bytes:
    """Another value in one place of a JSON text, or a member more, fewer, or of another name."""
    try:
        tree = json.loads(text)
    except ValueError:
        return _damaged(chance, text)
    places = list(_places(tree))
    if not places:
        return json.dumps(chance.choice(_ODD)).encode()
    # Members near the top are those that formats ask for.
    holder, name, _ = min(chance.choices(places, k=3), key=lambda place: place[2])
    mark = "~raw~" if chance.random() < 0.15 else None
    match chance.randrange(6):
        case 0 if isinstance(holder, dict):
            del holder[name]
        case 1 if isinstance(holder, dict):
            other = chance.choice(("", "x", str(name).upper(), f"{name}\x00", "schema", "payload", "op", "data", "é"))
            holder[other] = holder.pop(name)
        case 2 if isinstance(holder, dict):
            holder[chance.choice(("", "X", "more", str(name).swapcase(), "\ud800"))] = chance.choice(_ODD)
        case _:
            holder[name] = mark or chance.choice(_ODD)
    written = json.dumps(tree, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return written.replace(b'"~raw~"', chance.choice(_RAW))


def _places(tree: Any, depth: int = 0) -> Iterator[tuple[Any, Any, int]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in items:
        yield tree, name, depth
        yield from _places(value, depth + 1)


def groups(seed: int, found: Sequence[Recording], size: int = SIZE) -> Iterator[tuple[Recording, list[Record]]]:
    """Some messages of a recording in their order, of which `size` are mutated. Without end."""
    chance = Random(seed)
    while True:
        recording = chance.choice(found)
        first = chance.randrange(len(recording.records))
        records = list(recording.records[first : first + chance.randrange(1, 2 * size)])
        for _ in range(size):
            at = chance.randrange(len(records) + 1)
            records.insert(at, mutated(chance, chance.choice(recording.records)))
        yield recording, records


class Hangs(Exception):
    """A group was not read in time."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise Hangs when it takes too long."""

    def hangs(*_: object) -> None:
        raise Hangs(f"not read after {_HANG_S} s")

    before = signal.signal(signal.SIGPROF, hangs)
    signal.setitimer(signal.ITIMER_PROF, _HANG_S)  # of the processor, which others may have most of
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def problem(recording: Recording, records: Sequence[Record], folder: Path, *, skip: bool) -> str:
    """What is wrong with how the source reads messages; empty when nothing is."""
    log = TopicLog(topic=1)
    log.write_keyed("topic", *records)
    follower = Follower(log, folder, **recording.options, **({"unreadable-messages": "skip"} if skip else {}))
    follower.source.stop_at_current()
    try:
        with limited():
            batches = follower.follow(10 * len(records) + 10)
    except CdcError as error:
        if skip:
            return f"stops though unreadable messages are skipped: {type(error).__name__}: {error}"
        return "" if _PLACE.search(str(error)) else f"names no place: {type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - what it is about
        return f"{type(error).__name__}: {error}"
    finally:
        follower.source.stop()
    changes = [item for batch in batches for item in batch if not isinstance(item, tuple)]
    if follower.at["topic/0"] != len(records):
        return f"ends at offset {follower.at['topic/0']} of {len(records)}"
    return _wrong_names(changes)


def _wrong_names(changes: Sequence[SchemaChange]) -> str:
    for change in changes:
        names = change.schema.names if isinstance(change, CreateTable) else ()
        folded = [name.casefold() for name in names]
        if len(set(folded)) < len(folded) or any(not name or "\0" in name for name in (*names, change.table.table)):
            return f"{change.table} has the columns {list(names)}"
    return ""


def problems(seed: int, count: int) -> Iterator[str]:
    """Groups that are read wrongly among at least `count` mutated messages, each with what is needed to repeat it."""
    with SchemaRegistry() as registry, tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        each = groups(seed, recordings(registry))
        for number in range(-(-count // SIZE)):
            recording, records = next(each)
            where = Path(folder) / str(number)
            found = problem(recording, records, where, skip=number % 2 == 0)
            if found:
                least = _smallest(recording, records, where, number)
                yield f"{recording.name}, seed {seed}, group {number}: {found}\n{least}"


def _smallest(recording: Recording, records: list[Record], folder: Path, number: int) -> str:
    """As few of the messages as have a problem too."""
    at = 0
    while at < len(records):
        fewer = records[:at] + records[at + 1 :]
        if fewer and problem(recording, fewer, folder / f"s{at}-{len(fewer)}", skip=number % 2 == 0):
            records = fewer
        else:
            at += 1
    return "\n".join(repr(record)[:3000] for record in records)


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    """How many groups are read wrongly, at most 255."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=10, help="stop after so many problems")
    given = parser.parse_args()
    found = 0
    for text in problems(given.seed, given.count):
        print(text, flush=True)
        found += 1
        if found >= given.first:
            break
    return min(found, 255)


if __name__ == "__main__":
    sys.exit(main())
