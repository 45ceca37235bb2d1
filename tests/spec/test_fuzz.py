"""Whatever the bytes are: a pipeline or a SpecError with places inside the file, never another error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.errors import Problem, SpecError
from cdc.spec.check import check

KEYS = st.sampled_from(
    ["source", "sink", "route", "transform", "pipeline", "type", "hostname", "port", "tables", "tables.exclude", "path",
     "password", "server-id", "scan.startup.mode", "connect.timeout", "max-batch-bytes", "invalid-dates", "rows", "<<",
     "debezium.x", "source-table", "sink-table", "replace-symbol", "schema.change.behavior", "model", "lock-timeout",
     "memory-limit", "exclude.schema.changes", "local-time-zone", "name", "parallelism", "passed", "max_batch_rows"]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.sampled_from(["mysql", "duckdb", "values", "binlog-files", "a.b", "(", "${X}", "${", "9" * 5000, "5s"]),
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=8), max_leaves=25
)


BLOCKS = st.dictionaries(KEYS, TREES, max_size=8)
PIPELINES = st.fixed_dictionaries(
    {
        "source": st.builds(dict, BLOCKS, type=st.sampled_from(["mysql", "values", "binlog-files"])),
        "sink": st.builds(dict, BLOCKS, type=st.sampled_from(["duckdb", "values"])),
    },
    optional={"route": st.lists(BLOCKS, max_size=3), "transform": st.lists(BLOCKS, max_size=2), "pipeline": BLOCKS},
)


def problems(data: bytes) -> tuple[Problem, ...]:
    try:
        check("p.yaml", data, env={"X": "put-in"})
    except SpecError as error:
        return error.problems
    return ()


def checks(data: bytes) -> None:
    found = problems(data)
    lines = len(re.split(rb"\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]", data))
    assert all(1 <= problem.line <= lines + 1 and problem.column >= 1 for problem in found)
    assert not any("put-in" in str(problem) for problem in found)


@pytest.mark.slow
@settings(max_examples=60)
@given(PIPELINES)
def test_any_options_are_checked(pipeline: dict[str, Any]) -> None:
    checks(json.dumps(pipeline).encode())


@settings(max_examples=60)
@given(st.dictionaries(KEYS, TREES, max_size=6))
@pytest.mark.slow
def test_any_tree_is_checked(tree: dict[str, Any]) -> None:
    checks(json.dumps(tree).encode())


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=80)
    | st.text(alphabet="abc:-[]{}&*!|>'\"%@`#?,\n\t $0189.~<=\x85\u2028", max_size=60).map(str.encode)
)
def test_any_bytes_are_read(data: bytes) -> None:
    checks(data)
