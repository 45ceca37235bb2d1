"""`cdc test`: runs the tests next to pipeline files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from cdc.testing.cases import finish_case
from cdc.testing.comparing import differences
from cdc.testing.suite import SUFFIX, read_suite, suite_file


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The result of a test: its position, its name, and the differences, none when it passed."""

    where: str
    name: str
    differences: tuple[str, ...]


def run_tests(file: str) -> Iterator[CaseOutcome]:
    """Run the tests of a pipeline file, given the file or the test file next to it. Raises SpecError."""
    pipeline = file.removesuffix(SUFFIX) + ".yaml" if file.endswith(SUFFIX) else file
    tests = read_suite(pipeline, suite_file(pipeline))
    for test in tests:
        with TemporaryDirectory(prefix="cdc-test-") as folder:  # apart from the dead letters of real runs
            result = finish_case(test.case, pipeline, dead_letters=folder)
        yield CaseOutcome(test.where, test.case.name, tuple(differences(test, result)))
