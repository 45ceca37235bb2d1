"""Finding the mirror in apt's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_services.apt_sources import addresses, mirror

DEB822 = """\
# Types: deb
Types: deb
# a comment between
URIs: http://first.example/debian
  https://second.example/debian/
Suites: bookworm

Types: deb
URIs: http://off.example/debian
Enabled: no
"""


def test_addresses_of_both_formats_in_order() -> None:
    lines = "# deb http://comment.example/debian sid\ndeb [signed-by=/k arch=amd64] https://l.example/debian sid main\n"
    assert list(addresses([("a.sources", DEB822), ("b.list", lines)])) == [
        "http://first.example/debian",
        "https://second.example/debian/",
        "https://l.example/debian",
    ]


def test_the_first_address_that_is_a_debian_archive_is_the_mirror(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "a.list").write_text("deb https://vendor.example/node_20.x nodistro main\n")
    (tmp_path / "sources.list.d" / "b.list.disabled").write_text("deb https://off.example/debian sid main\n")
    (tmp_path / "sources.list").write_text("deb https://m.example/pub/debian/ bookworm main\n")
    assert mirror({}, tmp_path) == "https://m.example/pub/debian"


def test_the_environment_names_another_mirror(tmp_path: Path) -> None:
    assert mirror({"CDC_DEBIAN_MIRROR": "https://mine.example/debian/"}, tmp_path) == "https://mine.example/debian"


def test_without_a_mirror_the_error_names_the_alternatives(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"CDC_DEBIAN_MIRROR.*Docker.*CDC_TEST_MYSQL_URL"):
        mirror({}, tmp_path)
