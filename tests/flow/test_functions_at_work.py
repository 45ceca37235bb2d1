"""Functions of users that a process has open when it dies: the driver can say which."""

from __future__ import annotations

from pathlib import Path

import pytest
from transform_rules import text

from cdc.errors import TransformError, WorkerLost
from cdc.flow.rule_steps import RuleSteps
from cdc.state.store import LocalStore
from cdc.transform.answers import prune
from cdc.transform.open_functions import name_functions
from cdc.transform.rules import Rules
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts, UserFunction

EVAL = "def eval(a: int) -> int:\n    return a\n"


def steps(store: LocalStore, task: str, code: str = EVAL) -> RuleSteps:
    settings = RuleSettings(functions=(UserFunction("risky", code), UserFunction("tame", EVAL)))
    source = RuleSource("transform[0]", "shop.t", RuleTexts(projection=text("id, risky(n) AS a")))
    return RuleSteps(Rules([source], settings), 0, lambda reason, number: None, task, 3, answers=store)


def test_what_a_lost_task_had_open_is_told_once_and_for_its_batch_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with steps(store, "batch-7-part-1"):
        pass
    steps(store, "batch-7-part-0").__enter__()  # and no exit, as of a process that is gone
    assert name_functions(WorkerLost("gone"), store, 6).message == "gone"
    assert name_functions(WorkerLost("gone"), store, 7).message == "gone; it was running user functions: risky, tame"
    assert name_functions(WorkerLost("gone"), store, 7).message == "gone"


def test_what_is_left_goes_with_its_batch_and_with_an_open_that_fails(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    steps(store, "batch-7-part-0").__enter__()
    prune(store, 6)
    assert len(store.names()) == 1
    prune(store, 7)
    with pytest.raises(TransformError):
        steps(store, "batch-8-part-0", EVAL + "def open(options):\n    raise OSError('no file')\n").__enter__()
    assert store.names() == []
