"""Draws what a command printed as a terminal, for the README: an SVG of plain text.

    make demo 2>&1 | python scripts/picture.py "make demo" > docs/demo.svg

Lines that are too long for a picture end with an ellipsis; the folder of the project is written as `.`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 112
CHARACTER_PX, LINE_PX, MARGIN_PX = 7.8, 19, 16
BACKGROUND, TEXT, COMMAND = "#1e2430", "#d8dee9", "#a3be8c"


def shown(line: str) -> str:
    """A line as the picture has it."""
    line = line.rstrip().replace(str(ROOT), ".")
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def picture(command: str, lines: Sequence[str]) -> str:
    """The SVG. `lines` are what the command printed."""
    rows = [(f"$ {command}", COMMAND), *((shown(line), TEXT) for line in lines)]
    width = round(2 * MARGIN_PX + COLUMNS * CHARACTER_PX)
    height = 2 * MARGIN_PX + len(rows) * LINE_PX
    texts = [
        f'<text x="{MARGIN_PX}" y="{MARGIN_PX + LINE_PX * (place + 1) - 5}" fill="{colour}">{escape(text)}</text>'
        for place, (text, colour) in enumerate(rows)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{escape(command)}">'
    )
    style = "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}</style>"
    box = f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>'
    return "\n".join([head, style, box, *texts, "</svg>"]) + "\n"


def main() -> int:
    """Read the lines, write the picture."""
    sys.stdout.write(picture(sys.argv[1], [line for line in sys.stdin.read().splitlines() if line.strip()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
