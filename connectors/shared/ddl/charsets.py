"""Character set names in DDL: aliases, the character set of a collation, and the maximum bytes of a character.

Source: SHOW CHARACTER SET of MySQL 9.7 and MariaDB 10.11.
"""

from __future__ import annotations

_BYTES: dict[str, int] = {
    **dict.fromkeys(
        (
            "armscii8", "ascii", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8",
            "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7",
            "macce", "macroman", "swe7", "tis620",
        ),
        1,
    ),
    **dict.fromkeys(("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ucs2"), 2),
    **dict.fromkeys(("eucjpms", "ujis", "utf8mb3"), 3),
    **dict.fromkeys(("gb18030", "utf16", "utf16le", "utf32", "utf8mb4"), 4),
}  # fmt: skip


def charset_name(written: str) -> str:
    """Return the character set's own name, lower case; `utf8` is `utf8mb3` on both servers."""
    name = written.lower()
    return "utf8mb3" if name == "utf8" else name


def charset_of(collation: str) -> str | None:
    """Return the character set of a collation, None for one that fits several (`uca1400_ai_ci`, `default`)."""
    name = charset_name(collation.partition("_")[0])
    return name if name in _BYTES else None


def max_bytes(charset: str) -> int:
    """Return the maximum bytes of a character; 4 for an unknown character set."""
    return _BYTES.get(charset, 4)
