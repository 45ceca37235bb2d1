"""The transform rules of one task, block by block, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters, folder_of
from cdc.source import Count
from cdc.state.store import Store
from cdc.transform import at_work

if TYPE_CHECKING:
    from cdc.transform.answers import Answers
    from cdc.transform.rules import Rules
    from cdc.transform.runner import RuleRunner


class RuleSteps:
    """A context manager that opens and closes the user's functions, and the files of dead letters.

    Files are named after the task, so a task that runs again writes the same ones. They are whole when the block ends;
    an exception removes them.
    """

    def __init__(
        self,
        rules: Rules | None,
        moment_ms: int,
        count: Count,
        task: str,
        attempt: int = 0,
        *,
        answers: Store | None = None,
    ) -> None:
        """`moment_ms` is what NOW() is; `task` is a name such as `batch-7-part-0`.

        What models answer is kept in `answers`, and read from it when the task runs again; the functions that are open
        are noted there too. Raises StateError.
        """
        functions = [] if rules is None else [each.function.name for each in rules.loaded]
        self._noted = answers if functions else None
        self._functions = functions
        self._answers = None if rules is None or not rules.models else _answers_of(answers, task)
        self._runner = None if rules is None else _runner(rules, self._answers)
        self._place = "" if rules is None else rules.settings.dead_letters
        self._moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
        self._count, self._task, self._attempt = count, task, attempt
        self._files: dict[str, DeadLetters] = {}

    def __enter__(self) -> RuleSteps:
        if self._noted is not None:
            at_work.note(self._noted, self._task, self._attempt, self._functions)
        if self._runner is not None:
            try:
                self._runner.__enter__()
            except BaseException:
                self._forget()
                raise
        return self

    def _forget(self) -> None:
        if self._noted is not None:
            at_work.forget(self._noted, self._task, self._attempt)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            for file in self._files.values():
                if kind is None:
                    file.close()
                else:
                    file.discard()
        finally:
            if self._runner is not None:
                self._runner.__exit__(kind, *error)
            self._forget()

    def apply(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """The blocks behind their tables' rules, without those of which no row passes."""
        if self._runner is None:
            yield from blocks
            return
        for block in blocks:
            made = self._apply_rule(self._runner, block)
            self._write_dead_letters(self._runner)
            if len(made) or not len(block):
                yield made
        for reason, counts in (
            ("failed-expression-to-null", self._runner.counts.values),
            ("failed-expression-to-dead-letter", self._runner.counts.left_out),
        ):
            for (table, column), number in counts.items():
                self._count(f"{reason} {table}.{column or 'filter'}", number)

    def _apply_rule(self, runner: RuleRunner, block: ChangeBlock) -> ChangeBlock:
        """The block behind its rule; what models have answered for it is on disk, also when it fails."""
        try:
            return runner.apply(block, self._moment)
        finally:
            if self._answers is not None:
                self._answers.save()

    def _write_dead_letters(self, runner: RuleRunner) -> None:
        """Write the rows that were left out of a block."""
        dead_letters = runner.counts.dead_letters
        if not dead_letters:
            return
        table = dead_letters[0].table
        if table not in self._files:
            self._files[table] = DeadLetters(self._place, f"{folder_of(table)}/{self._task}", self._attempt)
        self._files[table].write(dead_letters)
        dead_letters.clear()


def _runner(rules: Rules, answers: Answers | None) -> RuleRunner:
    from cdc.transform.runner import RuleRunner  # with the engine, which a pipeline without rules does without

    return RuleRunner(rules, answers)


def _answers_of(store: Store | None, task: str) -> Answers:
    """The answers of a task, with those that it had when it ran before."""
    from cdc.transform.answers import Answers

    return Answers(store, task)
