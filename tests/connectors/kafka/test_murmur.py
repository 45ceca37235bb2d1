"""The partitioner's hash against values of the Java client's own test (`UtilsTest.testMurmur2`)."""

from __future__ import annotations

from together import together

from connectors.kafka.delivery.partitioner import murmur2


@together(
    "data, hashed",
    [
        (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971), (b"abc", 479470107),
    ],
)  # fmt: skip
def test_murmur2_is_javas(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed & 0xFFFFFFFF
