"""How the server that wrote a statement reads it: flavor, version, and its `sql_mode` at that moment."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

# Bit numbers of `sql_mode` in the Q_SQL_MODE status variable (MySQL sql/system_variables.h, MariaDB sql/sql_class.h).
_REAL_AS_FLOAT = 1
_ANSI_QUOTES = 1 << 2
_ORACLE = 1 << 9
_MSSQL = 1 << 10
_MAXDB = 1 << 12
_NO_AUTO_VALUE_ON_ZERO = 1 << 19
_NO_BACKSLASH_ESCAPES = 1 << 20
_STRICT = 1 << 21 | 1 << 22
_PAD_CHAR_TO_FULL_LENGTH = 1 << 31

_FIXED_ZONE = re.compile(r"[+-]\d\d:\d\d|UTC")
_BEYOND = re.compile("[^\x00-\uffff]")

_FLAGS_TELL = 100804
"""MariaDB version since which sessions may set `explicit_defaults_for_timestamp`."""

_LOGS_CASCADES = 90600


@dataclass(frozen=True, slots=True)
class DdlDialect:
    """The reading rules of one statement.

    Attributes:
        mariadb: MariaDB, else MySQL.
        version: major * 10000 + minor * 100 + patch, as in versioned comments: 90704, 101119.
        ansi_quotes: `"x"` is a name, not a string.
        backslash_escapes: a backslash in a string escapes the next character.
        real_as_float: REAL is FLOAT, not DOUBLE.
        oracle: MariaDB's sql_mode=ORACLE, in which some type names mean other types.
        maxdb: sql_mode=MAXDB of MariaDB and of MySQL before 8, in which TIMESTAMP means DATETIME.
        brackets: MariaDB's sql_mode=MSSQL, in which `[x]` is a name.
        explicit_timestamps: `explicit_defaults_for_timestamp`; if off, TIMESTAMP columns are NOT NULL unless declared
            NULL.
        logs_cascades: row changes by foreign keys are in the log: MySQL since 9.6, unless `innodb_native_foreign_keys`
            is on.
        strict: STRICT_TRANS_TABLES or STRICT_ALL_TABLES: values that do not fit are refused, not changed.
        keeps_zeros: NO_AUTO_VALUE_ON_ZERO: a 0 in an AUTO_INCREMENT column stays 0.
        pads_char: PAD_CHAR_TO_FULL_LENGTH: a converted CHAR has trailing spaces.
        fixed_zone: the session's time zone is known to have no repeated hour.
        literals: Python's codec of the session's `character_set_connection`, to which a server converts literals first,
            or `ucs2` for letters up to U+FFFF; empty if it has all letters of the statement.
    """

    mariadb: bool = False
    version: int = 90700
    ansi_quotes: bool = False
    backslash_escapes: bool = True
    real_as_float: bool = False
    oracle: bool = False
    maxdb: bool = False
    brackets: bool = False
    explicit_timestamps: bool = True
    logs_cascades: bool = False
    strict: bool = False
    keeps_zeros: bool = False
    pads_char: bool = False
    fixed_zone: bool = False
    literals: str = ""

    @classmethod
    def of(cls, server_version: str) -> DdlDialect:
        """Return the dialect of a server, told from its version text.

        Examples are `9.7.4`, `10.11.19-MariaDB-log` and `5.5.5-10.6.1-MariaDB`.
        """
        mariadb = "mariadb" in server_version.lower()
        text = server_version.removeprefix("5.5.5-") if mariadb else server_version
        numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
        major, minor, patch = (*numbers, 0, 0, 0)[:3]
        version = major * 10000 + minor * 100 + patch
        return cls(
            mariadb=mariadb,
            version=version,
            explicit_timestamps=version >= (101000 if mariadb else 80002),
            logs_cascades=not mariadb and version >= _LOGS_CASCADES,
        )

    @property
    def has_timestamp_flag(self) -> bool:
        """Whether the flags of a QUERY event contain `explicit_defaults_for_timestamp`."""
        return self.mariadb and self.version >= _FLAGS_TELL

    def converted(self, text: str) -> str:
        """Return a literal's text on the server: `?` for each letter that `literals` lacks."""
        if self.literals == "ucs2":
            return _BEYOND.sub("?", text)
        return text.encode(self.literals, "replace").decode(self.literals) if self.literals else text

    def with_mode(
        self, sql_mode: int, *, explicit_timestamps: bool | None = None, time_zone: str = "", literals: str = ""
    ) -> DdlDialect:
        """Return the dialect under the `sql_mode` bits, time zone and character set of a QUERY event.

        None keeps `explicit_timestamps`.
        """
        return replace(
            self,
            real_as_float=bool(sql_mode & _REAL_AS_FLOAT),
            ansi_quotes=bool(sql_mode & _ANSI_QUOTES),
            oracle=self.mariadb and bool(sql_mode & _ORACLE),
            maxdb=bool(sql_mode & _MAXDB),
            brackets=self.mariadb and bool(sql_mode & _MSSQL),
            backslash_escapes=not sql_mode & _NO_BACKSLASH_ESCAPES,
            strict=bool(sql_mode & _STRICT),
            keeps_zeros=bool(sql_mode & _NO_AUTO_VALUE_ON_ZERO),
            pads_char=bool(sql_mode & _PAD_CHAR_TO_FULL_LENGTH),
            fixed_zone=_FIXED_ZONE.fullmatch(time_zone) is not None,
            literals=literals,
            explicit_timestamps=self.explicit_timestamps if explicit_timestamps is None else explicit_timestamps,
        )
