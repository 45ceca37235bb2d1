"""Dead letters: JSON lines in a file per task and table that a repeated task writes again."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pytest
from s3_server import s3_server
from together import together

from cdc.dead_letters import DeadLetter, DeadLetters, Rejected, folder_of, without_secret
from cdc.errors import SinkError
from connectors.shared.conversion.policy import Reason

LETTER = DeadLetter(
    table="shop.orders",
    position="000003:1234",
    operation="upsert",
    key={"id": 2**63},
    rejected=(Rejected("note", "VARCHAR(3)", Reason.TOO_LONG),),
    row={
        "id": 2**63, "note": "größe\n", "body": b"\x00\xff", "price": Decimal("1.50"), "day": datetime.date(2026, 1, 2),
        "spent": float("nan"), "weight": 0.5, "tags": [1.5, None], "paid": True, "none": None, "small": 7,
    },
)  # fmt: skip


def test_a_name_with_signs_of_paths_is_one_folder() -> None:
    assert folder_of("shop.orders-2") == "shop.orders-2"
    assert folder_of("shop./../../a b") == "shop.%2F..%2F..%2Fa%20b"


def test_a_row_is_one_line_with_exact_values(tmp_path: Path) -> None:
    with DeadLetters(str(tmp_path), "p/shop.orders/batch-7-part-0") as letters:
        letters.write([LETTER, LETTER])
    lines = (tmp_path / "p/shop.orders/batch-7-part-0.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == letters.written == 2
    assert json.loads(lines[0]) == {
        "table": "shop.orders", "position": "000003:1234", "operation": "upsert", "key": {"id": str(2**63)},
        "rejected": [{"column": "note", "type": "VARCHAR(3)", "reason": "too-long"}],
        "row": {
            "id": str(2**63), "note": "größe\n", "body": "0x00ff", "price": "1.50", "day": "2026-01-02",
            "spent": "nan", "weight": 0.5, "tags": [1.5, None], "paid": True, "none": None, "small": 7,
        },
    }  # fmt: skip


def test_a_repeated_task_replaces_its_file(tmp_path: Path) -> None:
    for attempt in range(2):
        with DeadLetters(str(tmp_path), "f", attempt) as letters:
            letters.write([LETTER])
    assert [path.name for path in tmp_path.iterdir()] == ["f.jsonl"]
    assert len((tmp_path / "f.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_nothing_is_made_without_a_row(tmp_path: Path) -> None:
    with DeadLetters(str(tmp_path / "new"), "f") as letters:
        letters.write([])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_task_leaves_no_file(tmp_path: Path) -> None:
    with DeadLetters(str(tmp_path), "f") as letters:
        letters.write([LETTER])
        letters.__exit__(KeyError, KeyError(), None)
    assert list(tmp_path.iterdir()) == []


def test_attempts_that_overlap_do_not_mix(tmp_path: Path) -> None:
    one, two = DeadLetters(str(tmp_path), "f", 0), DeadLetters(str(tmp_path), "f", 1)
    one.write([LETTER])
    two.write([LETTER, LETTER])
    two.close()
    one.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["f.jsonl"]
    assert len((tmp_path / "f.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_a_place_given_as_a_uri(tmp_path: Path) -> None:
    with DeadLetters(f"file://{tmp_path}", "f") as letters:
        letters.write([LETTER])
    assert (tmp_path / "f.jsonl").exists()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"file: dead letters cannot be written: .*[Dd]irectory"):
        DeadLetters(str(tmp_path / "file"), "f").write([LETTER])


def test_a_place_in_a_bucket() -> None:
    with s3_server() as server:
        bucket = server.new_bucket()
        with DeadLetters(f"{bucket}/letters", "shop/f") as letters:
            letters.write([LETTER])
        body = (
            server.client().get_object(Bucket=bucket.removeprefix("s3://"), Key="letters/shop/f.jsonl")["Body"].read()
        )
        assert json.loads(body)["table"] == LETTER.table
        text = "dead letters cannot be written: Bucket 'none' not found.*the bucket or folder has to exist"
        with pytest.raises(SinkError, match=text) as caught:
            DeadLetters("s3://key:word@none/letters?region=eu-central-1", "f").write([LETTER])
        assert caught.value.where == "s3://none/letters"
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("location", ["s3://key:w%2Frd@b/x", "s3://b/x?secret_key=w/rd", "s3://b/x?secret_key=w%2Frd"])
def test_what_a_store_says_is_told_without_secrets(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(uri: str) -> None:
        raise ValueError(f"cannot parse w/rd in {uri}")

    monkeypatch.setattr("cdc.dead_letters._file_system", refused)
    with pytest.raises(SinkError, match="cannot parse") as caught:
        DeadLetters(location, "f").write([LETTER])
    assert "w/rd" not in str(caught.value)
    assert "w%2Frd" not in str(caught.value)


@together(
    "location, shown",
    [
        ("/var/letters", "/var/letters"),
        ("s3://key:secret@bucket/folder?region=x&secret_key=y", "s3://bucket/folder"),
        ("file:///var/letters", "file:///var/letters"),
    ],
)
def test_a_location_is_shown_without_its_secrets(location: str, shown: str) -> None:
    assert without_secret(location) == shown
