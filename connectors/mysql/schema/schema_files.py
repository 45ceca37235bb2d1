"""Reads table definitions from SQL files, such as those of `mysqldump --no-data`, into a catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cdc.errors import SchemaUnknown, SourceError
from connectors.mysql.ddl.catalog import TableDefinitions

_STEPPED_OVER = (
    r"'(?:[^'\\]|\\.|'')*'",
    r'"(?:[^"\\]|\\.|"")*"',
    r"`(?:[^`]|``)*`",
    r"/\*.*?\*/",
    r"--(?=\s)[^\n]*",
    r"\#[^\n]*",
)
_DELIMITER = r"^[ \t]*DELIMITER[ \t]+(?P<delimiter>\S+)[^\n]*"
_USE = re.compile(r"\s*USE\s+(?:`((?:[^`]|``)+)`|(\S+))\s*", re.IGNORECASE)
_COMMENTS = re.compile(r"\A(?:\s+|--\s[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/)+", re.DOTALL)


def define_from(path: Path, catalog: TableDefinitions) -> None:
    """Apply the file's DDL to a catalog; ignores rows in it (INSERT).

    Raises SourceError when it cannot be read, SchemaUnknown for a statement about captured tables that is not
    understood.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot be read: {error}", where=str(path), hint="check source.schema-files") from error
    database = ""
    for statement in statements(text):
        use = _USE.fullmatch(statement)
        if use:
            database = (use[1] or "").replace("``", "`") or use[2]
            continue
        result = catalog.apply(statement, database)
        if result.unparsed:
            raise SchemaUnknown(
                f"a statement is not understood ({result.unparsed[0].reason}): {statement[:200]}",
                where=str(path),
                hint="remove it, or write the CREATE TABLE statement that the server shows",
            )


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script, without separators and leading comments.

    Handles strings, names, comments, and the DELIMITER lines around stored programs.
    """
    at, start, delimiter = 0, 0, ";"
    while True:
        pattern = "|".join((*_STEPPED_OVER, _DELIMITER, f"(?P<end>{re.escape(delimiter)})"))
        ended = False
        for found in re.compile(pattern, re.DOTALL | re.MULTILINE | re.IGNORECASE).finditer(text, at):
            if found["end"] is None and found["delimiter"] is None:
                continue
            yield from _plain(text[start : found.start()])
            at = start = found.end()
            ended = found["delimiter"] is not None
            if ended:
                delimiter = found["delimiter"]
                break
        if not ended:
            yield from _plain(text[start:])
            return


def _plain(statement: str) -> Iterator[str]:
    bare = _COMMENTS.sub("", statement).strip()
    if bare:
        yield bare
