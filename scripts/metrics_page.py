"""The tables of metrics in docs/monitoring.md: `make schemas` rewrites them."""

from __future__ import annotations

import sys
from pathlib import Path

from cdc.status.families import ALIASES, FAMILIES, TABLE_FAMILIES, Family

BEGIN, END = "<!-- metrics -->\n", "<!-- end of metrics -->"


def tables() -> str:
    """All metrics as Markdown."""
    parts = [
        _table("metric", FAMILIES),
        "For each table:\n\n" + _table("metric", TABLE_FAMILIES),
        "Under Flink's names, for dashboards made for Flink CDC:\n\n" + _table("alias", ALIASES),
    ]
    return "\n".join(parts)


def page_with_tables(page: str) -> str:
    """The page with the tables of today."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{tables()}{END}{rest.partition(END)[2]}"


def _table(what: str, families: tuple[Family, ...]) -> str:
    rows = [f"| {what} | kind | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.text.rstrip('.')} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/monitoring.md")
    path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
