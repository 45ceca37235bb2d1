"""`pipeline.test.yaml`: test cases of a pipeline file with their expected results.

    version: 1
    variables: {MYSQL_PASSWORD: any}          # values of ${NAME} in the pipeline, before the environment's
    tests:
      - name: unpaid orders stay out
        now: 2026-01-01T00:00:00Z             # the value of NOW()
        sink_tables: {ods.orders: {...}}      # tables that already exist in the sink
        input: [{change: create.table, ...}, {op: +I, ...}]
        output: [...]                         # lines, in order
        schemas: {ods.orders: {...}}          # final schemas; other tables are not checked
        error: {type: TransformError, message: part of it, where: part of it}

docs/testing.md has every key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cdc.errors import Problem, SpecError
from cdc.spec import reader, tree
from cdc.spec.check import LARGEST_FILE
from cdc.spec.files import read_regular
from cdc.testing.case import PipelineCase, case_from

VERSION = 1
SUFFIX = ".test.yaml"
_EXPECTED = ("output", "schemas", "error")
_TEST_KEYS = ("name", "sink", "now", "sink_tables", "input", *_EXPECTED)
ERROR_KEYS = ("type", "message", "where")


@dataclass(frozen=True, slots=True)
class PipelineTest:
    """One test.

    Attributes:
        where: file and line.
        case: the case to run.
        output: the expected lines, None for any.
        schemas: the expected final schemas of some tables, None for any.
        error: the expected error, None for none.
    """

    where: str
    case: PipelineCase
    output: tuple[object, ...] | None
    schemas: Mapping[str, Any] | None
    error: Mapping[str, str] | None


def suite_file(pipeline: str) -> str:
    """Return the test file next to a pipeline file."""
    return os.path.splitext(pipeline)[0] + SUFFIX


def read_suite(pipeline: str, file: str) -> list[PipelineTest]:
    """Read the tests of a pipeline file. Raises SpecError with every mistake in the test file, or if it is missing."""
    text, root = _read(pipeline).decode("utf-8", "replace"), _tree(file)
    suite = _Suite(file, root)
    tests = list(suite.tests(text))
    if suite.problems:
        raise SpecError(sorted(suite.problems, key=lambda problem: (problem.line, problem.column)))
    return tests


def _read(file: str) -> bytes:
    try:
        return read_regular(Path(file), LARGEST_FILE)
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        hint = f"a pipeline's tests are next to it, in a file that ends in {SUFFIX}"
        raise SpecError([Problem(file, 1, 1, "", f"cannot be read: {reason}", hint)]) from error


def _tree(file: str) -> tree.Mapping:
    root, problems = reader.read(file, _read(file), env=None, read_file=str)
    if root is not None and not isinstance(root, tree.Mapping) and not problems:
        problems = [Problem(file, 1, 1, "", "must be a mapping with `version` and `tests`", "start with `version: 1`")]
    if problems:
        raise SpecError(problems)
    assert isinstance(root, tree.Mapping), "everything else is a problem"
    return root


class _Suite:
    """Reads a test file and collects its mistakes in `problems`."""

    def __init__(self, file: str, root: tree.Mapping) -> None:
        self._file, self._root, self._plain = file, root, tree.plain(root)
        self.problems: list[Problem] = []

    def tests(self, pipeline: str) -> Iterator[PipelineTest]:
        """Yield the valid tests; `pipeline` is the text of the pipeline file."""
        self._check_keys(self._plain, (), ("version", "variables", "tests"))
        if self._plain.get("version") != VERSION:
            self._wrong(("version",), f"must be {VERSION}, the only version of this format")
        variables = {**os.environ, **self._variables()}
        listing = tree.find(self._root, ("tests",))
        if not isinstance(listing, tree.Listing) or not listing.items:
            self._wrong(("tests",), "must be a list of tests")
            return
        for number, test in enumerate(self._plain["tests"]):
            made = self._test(number, test, pipeline, variables)
            if made is not None:
                yield made

    def _variables(self) -> dict[str, str]:
        given = self._plain.get("variables") or {}
        if not isinstance(given, dict):
            self._wrong(("variables",), "must be a mapping of names and texts")
            return {}
        found = ((name, tree.find(self._root, ("variables", name))) for name in given)
        return {name: node.text for name, node in found if isinstance(node, tree.Scalar)}

    def _test(self, number: int, test: Any, pipeline: str, variables: Mapping[str, str]) -> PipelineTest | None:
        path: tree.Path = ("tests", number)
        if not isinstance(test, dict):
            self._wrong(path, "must be a mapping with `name`, `input` and `output`")
            return None
        self._check_keys(test, path, _TEST_KEYS)
        if not any(key in test for key in _EXPECTED):
            self._wrong(path, "expects nothing", f"add the expected result: {', '.join(_EXPECTED)}")
        for key, kind, expected in (("output", list, "a list of lines"), ("schemas", dict, "a mapping of tables")):
            if key in test and not isinstance(test[key], kind):
                self._wrong((*path, key), f"must be {expected}")
        given = {key: value for key, value in test.items() if key not in _EXPECTED}
        case = self._case(given, path, pipeline, variables)
        error = self._error(test.get("error"), (*path, "error"))
        mark = tree.mark_of(self._root, path)
        output = test.get("output")
        if case is None:
            return None
        return PipelineTest(
            f"{self._file}:{mark.line}", case, tuple(output) if isinstance(output, list) else None,
            test.get("schemas"), error,
        )  # fmt: skip

    def _case(
        self, given: dict[str, Any], path: tree.Path, pipeline: str, variables: Mapping[str, str]
    ) -> PipelineCase | None:
        """Read the case, with the positions of its lines in this file."""
        known = {key: value for key, value in given.items() if key in _TEST_KEYS}
        try:
            case = case_from({**known, "pipeline": pipeline, "variables": dict(variables)}, int(path[-1]))
        except SpecError as error:
            for problem in error.problems:
                key = problem.path.partition("[")[0].partition(".")[0]
                self._wrong((*path, key) if key else path, problem.message, problem.hint)
            return None
        marks = (tree.mark_of(self._root, (*path, "input", index)) for index in range(len(case.input)))
        lines = zip(marks, case.input, strict=True)
        return replace(case, input=tuple((f"{self._file}:{mark.line}", line) for mark, (_, line) in lines))

    def _error(self, error: Any, path: tree.Path) -> Mapping[str, str] | None:
        if error is None:
            return None
        if isinstance(error, dict) and all(isinstance(text, str) for text in error.values()):
            self._check_keys(error, path, ERROR_KEYS)
            return error
        self._wrong(path, f"must be a mapping of {', '.join(ERROR_KEYS)} to texts")
        return None

    def _check_keys(self, given: Mapping[str, Any], path: tree.Path, keys: tuple[str, ...]) -> None:
        for key in given:
            if key not in keys:
                self._wrong((*path, key), "unknown key", f"known: {', '.join(keys)}", key=True)

    def _wrong(self, path: tree.Path, message: str, hint: str = "", *, key: bool = False) -> None:
        mark = tree.mark_of(self._root, path, key=key)
        self.problems.append(Problem(self._file, mark.line, mark.column, tree.dotted(path), message, hint))
