"""Runs the rules of a pipeline: applies them to blocks, and tries them on no rows before anything starts."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from contextlib import ExitStack

from cdc.block import ChangeBlock
from cdc.schema import TableId, TableSchema
from cdc.transform.answers import Answers
from cdc.transform.failures import Counts
from cdc.transform.rule import Rule
from cdc.transform.rule_cache import cached_rules
from cdc.transform.rules import Rules


def prove(rules: Rules, tables: Mapping[TableId, TableSchema]) -> None:
    """Find errors that only the engine detects, with the first table of each rule. Raises SpecError."""
    proven: set[str] = set()
    for table, schema in tables.items():
        rule = rules.rule(table)
        if rule is not None and rule.name not in proven:
            proven.add(rule.name)
            cached_rules(rules).compiled(rule, schema, prove=True)


class RuleRunner:
    """Applies rules to blocks, in one thread of a task; compiled rules are cached for later tasks.

    A context manager: it opens user functions on entry and closes them on exit. Without `answers` models are not
    queried, and their answers are NULL.
    """

    def __init__(self, rules: Rules, answers: Answers | None = None) -> None:
        self._cache, self._answers = cached_rules(rules), answers
        self._rules = self._cache.rules
        self._by_table: dict[TableId, Rule | None] = {}
        self._opened = ExitStack()
        self.counts = Counts()

    def __enter__(self) -> RuleRunner:
        for model in self._rules.models:
            model.begin(self._answers)
        with ExitStack() as opened:
            for loaded in self._rules.loaded:
                loaded.open()
                opened.callback(loaded.close)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def apply(self, block: ChangeBlock, now: datetime.datetime) -> ChangeBlock:
        """Apply the table's rule to a block; `now` is the batch's time. Raises TransformError and SpecError."""
        if block.table not in self._by_table:
            self._by_table[block.table] = self._rules.rule(block.table)
        rule = self._by_table[block.table]
        return block if rule is None else self._cache.compiled(rule, block.schema).apply(block, now, self.counts)
