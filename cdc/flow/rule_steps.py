"""Applies the transform rules to the blocks of one task and writes dead letters. Executor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters, folder_of
from cdc.source import Count
from cdc.state.store import Store
from cdc.transform import open_functions

if TYPE_CHECKING:
    from cdc.transform.answers import Answers
    from cdc.transform.rules import Rules
    from cdc.transform.runner import RuleRunner


class RuleSteps:
    """Context manager that opens and closes the user's functions and the dead-letter files of a task.

    Files are named after the task, so a repeated task overwrites its own. They are complete after a normal exit and
    removed after an exception.
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
        """`moment_ms` is the value of NOW(); `task` is a name such as `batch-7-part-0`.

        `answers` stores the answers of models, so that a repeated task reads them back, and the names of the functions
        that are open. Raises StateError.
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
            open_functions.note(self._noted, self._task, self._attempt, self._functions)
        if self._runner is not None:
            try:
                self._runner.__enter__()
            except BaseException:
                self._forget()
                raise
        return self

    def _forget(self) -> None:
        if self._noted is not None:
            open_functions.forget(self._noted, self._task, self._attempt)

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
        """Yield the blocks after their tables' rules, without those whose rows are all filtered out."""
        if self._runner is None:
            yield from blocks
            return
        for block in blocks:
            result = self._apply_rule(self._runner, block)
            self._write_dead_letters(self._runner)
            if len(result) or not len(block):
                yield result
        for reason, counts in (
            ("failed-expression-to-null", self._runner.counts.values),
            ("failed-expression-to-dead-letter", self._runner.counts.left_out),
        ):
            for (table, column), number in counts.items():
                self._count(f"{reason} {table}.{column or 'filter'}", number)

    def _apply_rule(self, runner: RuleRunner, block: ChangeBlock) -> ChangeBlock:
        """Apply its rule to a block. Answers of models are on disk afterwards, also after an error."""
        try:
            return runner.apply(block, self._moment)
        finally:
            if self._answers is not None:
                self._answers.save()

    def _write_dead_letters(self, runner: RuleRunner) -> None:
        """Write the rows that failed to the dead-letter files."""
        dead_letters = runner.counts.dead_letters
        if not dead_letters:
            return
        table = dead_letters[0].table
        if table not in self._files:
            self._files[table] = DeadLetters(self._place, f"{folder_of(table)}/{self._task}", self._attempt)
        self._files[table].write(dead_letters)
        dead_letters.clear()


def _runner(rules: Rules, answers: Answers | None) -> RuleRunner:
    from cdc.transform.runner import RuleRunner  # imported here, as it loads the expression engine

    return RuleRunner(rules, answers)


def _answers_of(store: Store | None, task: str) -> Answers:
    """The model answers of a task, including those of its earlier attempts."""
    from cdc.transform.answers import Answers

    return Answers(store, task)
