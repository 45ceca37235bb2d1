"""`cdc test`: pipeline files held against the tests beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cdc.testing.cases import finished, scratch
from cdc.testing.comparing import differences
from cdc.testing.suite import SUFFIX, PipelineTest, read_suite, suite_file


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a test: `where` it stands, its name, and the differences, none when it passed."""

    where: str
    name: str
    differences: tuple[str, ...]


def run_tests(file: str) -> Iterator[Outcome]:
    """Run the tests of a pipeline file, given itself or as the test file beside it. Raises SpecError."""
    pipeline = file.removesuffix(SUFFIX) + ".yaml" if file.endswith(SUFFIX) else file
    tests = read_suite(pipeline, suite_file(pipeline))
    with tempfile.TemporaryDirectory(prefix="cdc-test-", dir=scratch()) as folder:
        for number, test in enumerate(tests):
            yield _outcome(test, pipeline, Path(folder) / str(number))


def _outcome(test: PipelineTest, pipeline: str, folder: Path) -> Outcome:
    result = finished(test.case, folder, pipeline)
    return Outcome(test.where, test.case.name, tuple(differences(test, result)))
