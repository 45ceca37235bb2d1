"""The values source: schema changes and row images written in a file or in the pipeline itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdc.errors import SourceError, SourceUnavailable
from cdc.lines.source import LineSource
from cdc.source import Context
from connectors.values.options import ValuesSourceOptions


class ValuesSource(LineSource):
    """Lines of a file or of the pipeline file. Picklable; each process reads and parses them once."""

    def __init__(self, options: ValuesSourceOptions, context: Context) -> None:
        super().__init__()
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_options": self._options}

    def lines(self) -> Iterator[tuple[str, object]]:
        """Yield the location and the JSON value of each line."""
        if self._options.rows is not None:
            yield from ((f"source.rows[{number}]", row) for number, row in enumerate(self._options.rows))
            return
        path = Path(self._options.path or "")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            hint = "name a JSON-lines file in source.path"
            raise SourceUnavailable(f"cannot be read: {error}", where=str(path), hint=hint) from error
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"{path}:{number}", _json(line, f"{path}:{number}")


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SourceError(f"is not JSON: {error}", where=where, hint="write one JSON object a line") from error
