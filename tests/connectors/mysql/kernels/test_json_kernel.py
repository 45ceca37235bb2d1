"""The JSON kernel and the trees made of its text, without a server: values, narrow buffers, damaged documents."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_binary import encode, opaque, random_document
from json_kernel import STACK, kernel_text
from together import together
from trials import trials

from cdc.errors import CorruptLog
from connectors.mysql.kernels import double_text as double_kernel
from connectors.mysql.kernels import number_text
from connectors.mysql.kernels.json import json_text, json_text_bound
from connectors.mysql.rows.json_value import decode, tree_text

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | finite
documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
TIME = struct.pack("<q", -((838 << 12 | 59 << 6 | 59) << 24 | 500_000))
SQL_VALUES = (
    opaque(246, b"\x14\x0a" + bytes.fromhex("810edfffff075bcd1505")), opaque(246, b"\x03\x02\x7f\xff"),
    opaque(11, TIME),
    opaque(12, struct.pack("<q", 0x19A5A23284_01E240)), opaque(252, b"blob" * 20), opaque(253, "é".encode()),
)  # fmt: skip
SOME = {"name": ["x\ty", 1, -70_000, 2.5, None], "deep": [[[{"k": "é"}]]], "o": opaque(252, b"abc" * 30)}


@pytest.mark.slow
@given(documents)
@settings(max_examples=trials(300), deadline=None)
def test_the_text_and_the_tree_have_the_value(value: object) -> None:
    document = encode(value)
    text = kernel_text(document)
    assert json.loads(str(text)) == value
    assert tree_text(decode(document)) == text


@together(
    "value, text",
    [
        ({"b": [1, 2.5], "a": 1, "": {}}, '{"": {}, "a": 1, "b": [1, 2.5]}'),
        ('\b\t\n\f\r"\\/\x1f\x7f', '"\\b\\t\\n\\f\\r\\"\\\\/\\u001f\x7f"'),
        ([1e15, 1e14, -0.0, 1e-16, 1e-15], "[1e15, 100000000000000.0, -0.0, 1e-16, 0.000000000000001]"),
        (opaque(253, b"\x00\xff\x10"), '"base64:type253:AP8Q"'),
        (opaque(253, "é".encode()), '"base64:type253:w6k="'),
        (opaque(252, b"x" * 58), '"base64:type252:' + "eHh4" * 19 + "\\n" + 'eA=="'),
        (opaque(11, TIME), '"-838:59:59.500000"'),
        (opaque(246, b"\x03\x02" + b"\x81\x32"), "1.50"),
        (opaque(246, b"\x03\x02" + b"\x7f\xff"), "0.00"),
        (opaque(246, b"\x02\x02" + b"\xb2"), "0.50"),
    ],
)
def test_text_of_chosen_values(value: object, text: str) -> None:
    assert kernel_text(encode(value)) == text
    assert tree_text(decode(encode(value))) == text


def test_an_empty_document_is_null() -> None:
    assert kernel_text(b"") == tree_text(decode(b"")) == "null"


def test_a_narrow_buffer_is_reported_and_nothing_behind_it_is_written() -> None:
    document = encode(SOME)
    text = str(kernel_text(document)).encode()
    source = np.frombuffer(document, np.uint8).copy()
    fitted = 0
    for room in range(len(text) + 64):
        out = np.full(room + 64, 0xAA, np.uint8)
        end = json_text(source, 0, len(document), out[: room + 5], 5, STACK)
        assert (out[room + 5 :] == 0xAA).all()
        assert (out[:5] == 0xAA).all()
        if end >= 0:
            fitted += 1
            assert out[5:end].tobytes() == text
        else:
            assert end == -1
    assert fitted > 0
    assert len(text) <= json_text_bound(len(document))


@together("start, end", [(-1, 2), (0, 99), (3, 2)])
def test_a_range_outside_the_buffer_is_corrupt(start: int, end: int) -> None:
    assert json_text(np.frombuffer(encode([1]), np.uint8).copy(), start, end, np.zeros(99, np.uint8), 0, STACK) == -2


def test_more_than_a_hundred_levels_are_corrupt() -> None:
    value: list[object] = []
    for _ in range(99):
        value = [value]
    assert kernel_text(encode(value)) == "[" * 100 + "]" * 100
    assert kernel_text(encode([value])) == -2


def test_offsets_that_share_bytes_end_soon() -> None:
    level = b"\x02\x00" + struct.pack("<H", 30) + b"\x02\x0a\x00\x02\x0a\x00"  # an array that holds itself-like twice
    bomb = b"\x02" + level * 90 + bytes(20)
    assert kernel_text(bomb) == -2


@together(
    "document",
    [
        b"\x04\x07", b"\x05\x01", b"\x0c\xff\xff\xff\xff\xff", b"\x0c\x05ab", b"\x0c\x01\xff", b"\x0d\x00",
        b"\x02\x01\x00\xff\x00", b"\x0f\x0b\x01\x00", b"\x0f\xf6\x03\xff\x00\x00",
        b"\x0b" + struct.pack("<d", float("inf")), b"\x0f\xf6\x03\x02\x00\xff", b"\x0c\x03\xed\xa0\x80",
    ],
)  # fmt: skip
def test_damage_is_refused(document: bytes) -> None:
    assert kernel_text(document) == -2
    with pytest.raises(CorruptLog, match="not a JSON document"):
        decode(document)


def mutants(seed: int, count: int) -> list[bytes]:
    """Documents with flipped bits, changed bytes, cuts and repeated parts."""
    rnd = random.Random(seed)
    made = []
    while len(made) < count:
        data = bytearray(encode([random_document(rnd), rnd.choice(SQL_VALUES)][rnd.randrange(2) :]))
        for _ in range(rnd.randrange(1, 4)):
            at = rnd.randrange(len(data))
            how = rnd.randrange(4)
            if how == 0:
                data[at] ^= 1 << rnd.randrange(8)
            elif how == 1:
                data[at] = rnd.choice((0, 1, 2, 3, 12, 15, 0x7F, 0x80, 0xFF))
            elif how == 2 and at:
                del data[at:]
            else:
                data[at:at] = data[at : at + rnd.randrange(9)]
        made.append(bytes(data))
    return made


def test_damaged_documents_get_one_answer_whatever_lies_around_them() -> None:
    refused = 0
    for document in mutants(1, 2_000):
        low, high = (np.concatenate([np.full(70_000, fill, np.uint8), np.frombuffer(document, np.uint8),
                     np.full(70_000, fill, np.uint8)]) for fill in (0, 0xFF))  # fmt: skip
        out = np.zeros(json_text_bound(len(document)), np.uint8)
        answers = []
        for source in (low, high):
            end = json_text(source, 70_000, 70_000 + len(document), out, 0, STACK)
            answers.append(out[:end].tobytes().decode() if end >= 0 else int(end))
        assert answers[0] == answers[1]
        refused += answers[0] == -2
        if isinstance(answers[0], str):
            json.loads(answers[0])
    assert refused > 300


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_subscript_leaves_its_buffer(tmp_path: Path) -> None:
    """The same damaged documents in a process where Numba checks every subscript."""
    script = (
        "from test_json_kernel import mutants\nfrom json_kernel import kernel_text\n"
        "answers = [kernel_text(document) for document in mutants(2, 500)]\n"
        "assert any(answer == -2 for answer in answers) and any(isinstance(answer, str) for answer in answers)\n"
    )
    environment = {
        "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path)),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_integers_as_text() -> None:
    out = np.zeros(number_text.INTEGER_TEXT_BYTES, np.uint8)
    for power in range(64):
        for value in {2**power - 1, 2**power, 10 ** min(power, 19), 10 ** min(power, 19) - 1}:
            end = number_text.uint64_text(np.uint64(value), out, 0)
            assert out[:end].tobytes() == str(value).encode()
            if value < 2**63:
                for signed in (value, -value):
                    end = number_text.int64_text(np.int64(signed), out, 0)
                    assert out[:end].tobytes() == str(signed).encode()
    assert number_text.int64_text(np.int64(-(2**63)), out, 0) == 20
    assert out.tobytes() == b"-9223372036854775808"
    assert number_text.int64_text(np.int64(-100), out[:3], 0) == number_text.FULL
    assert number_text.padded_text(np.int64(42), np.int64(5), out, 0) == 5
    assert out[:5].tobytes() == b"00042"


@given(finite)
@settings(max_examples=trials(1_000), deadline=None)
def test_doubles_as_text(value: float) -> None:
    out = np.zeros(double_kernel.DOUBLE_TEXT_BYTES, np.uint8)
    bits = np.uint64(struct.unpack("<Q", struct.pack("<d", value))[0])
    end = double_kernel.double_text(bits, out, 0)
    text = out[:end].tobytes().decode()
    assert Decimal(text) == Decimal(repr(value))
    assert float(text) == value
