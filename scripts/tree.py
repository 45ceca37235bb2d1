"""Writes the tree in docs/architecture.md: every package of the product with the first sentence of its docstring.

python scripts/tree.py            rewrites the block between the two markers
python scripts/tree.py --check    exits with 1 when the page is not what it would write
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree: make schemas -->", "<!-- end of tree -->"


def sentence(package: Path) -> str:
    """The first sentence of a package's docstring."""
    text = " ".join((ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or "").split())
    return text.split(". ")[0].rstrip(".")


def tree() -> str:
    """The block, markers included."""
    packages = sorted(path.parent for top in ("cdc", "connectors") for path in (ROOT / top).rglob("__init__.py"))
    lines = ["| folder | what is in it |", "|---|---|"]
    for package in packages:
        lines.append(f"| `{package.relative_to(ROOT)}/` | {sentence(package)} |")
    return "\n".join([BEGIN, *lines, END])


def page() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    return text[: text.index(BEGIN)] + tree() + text[text.index(END) + len(END) :]


def main() -> int:
    """Write the page, or compare it."""
    wanted = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
