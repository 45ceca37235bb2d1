"""Which text is UTF-8: the kernel against Python's own decoder, at every place of a word, and below NULLs."""

from __future__ import annotations

import random

import pyarrow as pa

from connectors.shared.kernels.buffers import well_formed

CLASSES = [
    bytes([byte])
    for byte in b"\0A\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf4\xf5\xff"
]
"""A byte of each kind that the definition knows."""
CHARACTERS = [text.encode() for text in "aé\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"]


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def column(values: list[bytes | None], before: bytes = b"") -> pa.StringArray:
    """The values as if they were text, after so many bytes of another value."""
    return pa.array([before, *values], pa.binary()).view(pa.string())[1:]


def test_every_pair_and_triple_of_kinds_of_bytes_at_every_place_of_a_word() -> None:
    for first in CLASSES:
        for second in CLASSES:
            for third in [b"", *CLASSES]:
                value = first + second + third
                for place in (5, 8, 23):
                    text = b"-" * place + value + b"-" * (24 - place)
                    assert well_formed(column([text])) == is_text(value), (value, place)


def test_characters_that_are_cut_or_run_into_the_next_value() -> None:
    rnd, seen = random.Random(20261129), {True: 0, False: 0}
    for _ in range(4_000):
        pool = CHARACTERS if rnd.random() < 0.6 else CHARACTERS + CLASSES
        values = [b"".join(rnd.choices(pool, k=rnd.randint(0, 12))) for _ in range(rnd.randint(1, 8))]
        if rnd.random() < 0.3 and values[-1]:
            values[-1] = values[-1][:-1]
        expected = all(is_text(value) for value in values)
        assert well_formed(column(values, b"x" * rnd.randint(0, 9))) == expected, values
        seen[expected] += 1
    assert min(seen.values()) > 500

    halves = ["größe".encode()[:3], "größe".encode()[3:]]
    assert is_text(b"".join(halves))
    assert not well_formed(column([*halves, b"a longer value after them"]))


def test_bytes_below_a_null_do_not_count() -> None:
    below = pa.StringArray.from_buffers(
        2, pa.array([0, 4, 9], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xff\xff\xffvalue"), pa.py_buffer(b"\x02")
    )
    assert below.to_pylist() == [None, "value"]
    assert well_formed(below)


def test_no_values_at_all() -> None:
    assert well_formed(pa.array([], pa.string()))
    assert well_formed(pa.array([None, None], pa.string()))
    assert well_formed(column([b"", None, b""]))
