"""Character sets of collation ids, for MySQL 5.6 - 9.7 and MariaDB 10 - 11.8.

The ids come from `information_schema.collations` of MySQL 9.7 and `collation_character_set_applicability` of MariaDB
10.11 and 11.8; no id has two character sets. MariaDB adds two series: 1024 + id is the same collation without padding,
and from 2048 on the Unicode 14 collations (`uca1400`) occupy blocks of 256 per character set.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_IDS: Final = {
    "armscii8": "32 64",
    "ascii": "11 65",
    "big5": "1 84",
    "binary": "63",
    "cp1250": "26 34 44 66 99",
    "cp1251": "14 23 50-52",
    "cp1256": "57 67",
    "cp1257": "29 58-59",
    "cp850": "4 80",
    "cp852": "40 81",
    "cp866": "36 68",
    "cp932": "95-96",
    "dec8": "3 69",
    "eucjpms": "97-98",
    "euckr": "19 85",
    "gb18030": "248-250",
    "gb2312": "24 86",
    "gbk": "28 87",
    "geostd8": "92-93",
    "greek": "25 70",
    "hebrew": "16 71",
    "hp8": "6 72",
    "keybcs2": "37 73",
    "koi8r": "7 74",
    "koi8u": "22 75",
    "latin1": "5 8 15 31 47-49 94",
    "latin2": "2 9 21 27 77",
    "latin5": "30 78",
    "latin7": "20 41-42 79",
    "macce": "38 43",
    "macroman": "39 53",
    "sjis": "13 88",
    "swe7": "10 82",
    "tis620": "18 89",
    "ucs2": "35 90 128-151 159 640-642",
    "ujis": "12 91",
    "utf16": "54-55 101-124 672-674",
    "utf16le": "56 62",
    "utf32": "60-61 160-183 736-738",
    "utf8mb3": "33 76 83 192-215 223 576-579",
    "utf8mb4": "45-46 224-247 255-271 273-275 277-294 296-298 300 303-323 608-611",
}
_NO_PADDING: Final = 1024
_UCA1400: Final = 2048
_UCA1400_BLOCKS: Final = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")


def charset_of(collation_id: int) -> str | None:
    """Return the character set of a collation id, None for an id unknown to both servers."""
    if collation_id >= _UCA1400:
        block = (collation_id - _UCA1400) >> 8
        return _UCA1400_BLOCKS[block] if block < len(_UCA1400_BLOCKS) else None
    return _by_id().get(collation_id - _NO_PADDING if collation_id > _NO_PADDING else collation_id)


@cache
def _by_id() -> dict[int, str]:
    charsets = {}
    for charset, spans in _IDS.items():
        for span in spans.split():
            first, _, last = span.partition("-")
            charsets.update(dict.fromkeys(range(int(first), int(last or first) + 1), charset))
    return charsets
