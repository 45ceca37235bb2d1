from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from cdc import registry
from connectors.duckdb.options import DuckDbSinkOptions


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    _clear()
    yield
    _clear()


def _clear() -> None:
    registry.options.cache_clear()
    registry._entries.cache_clear()


def test_a_name_gives_its_options_class() -> None:
    assert registry.options("sink", "duckdb") is DuckDbSinkOptions


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(registry.UnknownConnector) as caught:
        registry.options("sink", "oracle")
    there = "doris, duckdb, elasticsearch, iceberg, kafka, mysql, oceanbase, paimon, starrocks, values"
    assert str(caught.value) == f"no sink named 'oracle'; known: {there}"


def installed(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    entries = [EntryPoint("x", value, "cdc.sinks") for value in values]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)


def test_two_packages_with_one_name_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "a.options:A", "b.options:B")
    with pytest.raises(registry.BrokenConnector, match=r"two packages register the sink 'x': a\.options:A of \?, b"):
        registry.options("sink", "x")


@pytest.mark.parametrize("value", ["no_such_package.options:X", "connectors.duckdb.options:Missing"])
def test_a_connector_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    installed(monkeypatch, value)
    with pytest.raises(registry.BrokenConnector, match=r"cannot be loaded"):
        registry.options("sink", "x")


def test_something_that_is_no_options_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "json:dumps")
    with pytest.raises(registry.BrokenConnector, match=r"is not an Options class"):
        registry.options("sink", "x")
