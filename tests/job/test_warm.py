"""A first start that compiles for a minute says so."""

from __future__ import annotations

import threading

import pytest

from cdc.job import pipeline_run


def test_workers_that_take_long_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_run, "_LONG_S", 0.01)
    told, read = threading.Event(), threading.Event()

    def workers() -> None:
        assert told.wait(30)

    pipeline_run._warm(workers, read.set, told.set)
    assert read.is_set()


def test_workers_that_are_ready_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_run, "_LONG_S", 3600.0)
    told = threading.Event()
    pipeline_run._warm(lambda: None, lambda: None, told.set)
    assert not told.is_set()
