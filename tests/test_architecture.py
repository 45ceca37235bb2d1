"""docs/architecture.md is true to the code: its tree is the packages' own words, its paths exist."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import tree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"


def test_the_tree_is_what_the_packages_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == tree.page(), "run `make schemas`"


def test_paths_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:cdc|connectors|tests|docs)/[\w/.]*)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 50
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_files_have_the_sizes_that_the_page_promises() -> None:
    lengths = [
        len(path.read_text(encoding="utf-8").splitlines())
        for top in ("cdc", "connectors")
        for path in (ROOT / top).rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert max(lengths) <= 400
    assert 100 <= statistics.median(lengths) <= 250
