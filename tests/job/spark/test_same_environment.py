"""What is said of an executor whose Python is not the driver's."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark import cloudpickle
from together import together

from cdc.errors import EngineError
from cdc.job.error_transport import recover
from cdc.job.spark.same_environment import CODE, check, installed, look

HERE = {"Python": "3.11", "pyarrow": "26.0", CODE: "0123456789ab"}


@together(
    "there, said",
    [
        ({**HERE, "Python": "3.12"}, "Python is 3.12 there and 3.11 here"),
        ({**HERE, "pyarrow": ""}, "pyarrow is missing there"),
        ({**HERE, "pyarrow": "25.0"}, "pyarrow is 25.0 there and 26.0 here"),
        ({**HERE, CODE: ""}, "the package cdc is missing there"),
        ({**HERE, CODE: "ba9876543210"}, "cdc is of another version there"),
    ],
)
def test_each_difference_is_named_with_the_machine(there: dict[str, str], said: str) -> None:
    with pytest.raises(EngineError) as caught:
        check(HERE, there, "worker-3", "/opt/cdc/bin/python")
    assert caught.value.message == f"the Python of an executor differs from the driver's: {said}"
    assert caught.value.where == "worker-3: /opt/cdc/bin/python"
    assert "same version of cdc" in caught.value.hint


def test_what_is_alike_is_fine() -> None:
    check(installed(), look(), "worker-3", "python")


def test_the_look_runs_where_there_is_no_cdc(tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    (tmp_path / "look").write_bytes(cloudpickle.dumps(look))  # type: ignore[no-untyped-call]
    script.write_text(
        "import pickle, sys\n"
        "class None_:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('cdc', 'connectors'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, None_())\n"
        "import importlib.util\n"
        "before = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name in ('cdc', 'connectors') else before(name)\n"
        f"found = pickle.load(open({str(tmp_path / 'look')!r}, 'rb'))()\n"
        "print(repr(found))\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert f"{CODE!r}: ''" in ran.stdout


def test_another_version_of_the_code_is_seen() -> None:
    before = importlib.util.find_spec

    def other(name: str) -> Any:
        return before("json" if name == "connectors" else name)

    with patch("importlib.util.find_spec", other):
        found = pickle.loads(cloudpickle.dumps(look))()  # type: ignore[no-untyped-call]
    assert found[CODE] not in ("", installed()[CODE])


def test_an_executor_that_lacks_the_code_is_told_apart_from_other_failures() -> None:
    text = "Traceback (most recent call last):\n  ...\nModuleNotFoundError: No module named 'cdc.job.stream'\n"
    found = recover(RuntimeError(text))
    assert found.message == "the Python of an executor has no cdc.job.stream, or another version of it"
    assert "on every machine" in found.hint
