"""Engines of a thread and the rules compiled in them, kept from task to task.

An engine takes 20 ms to make and a rule 5 ms to compile for a schema: small batches would take longer for that than for
their rows. A process of Spark's runs the tasks of one pipeline for hours, so it compiles each rule once per schema.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from cdc.schema import TableSchema
from cdc.transform.compiled import CompiledRule
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.rule import Rule
from cdc.transform.rules import Rules
from cdc.transform.user import forget_functions

MOST_RULE_SETS = 4
"""Rule sets that a thread keeps: one in production, many in a suite of small cases."""

MOST_COMPILED = 2_000
"""Compiled rules of one set: more than tables usually are, less than what schema changes of years come to."""


@dataclass
class CachedRules:
    """The rules of a pipeline with what was compiled of them. Belongs to one thread.

    Attributes:
        rules: equal to those that were asked for; its functions are the ones that the engine knows.
    """

    rules: Rules
    _engine: Engine | None = None
    _compiled: OrderedDict[tuple[str, TableSchema], CompiledRule] = field(default_factory=OrderedDict)

    def compiled(self, rule: Rule, schema: TableSchema, *, prove: bool = False) -> CompiledRule:
        """The rule for tables of this schema; `prove` as `compile_rule` has it. Raises SpecError."""
        key = (rule.name, schema)
        if key not in self._compiled:
            self._engine = self._engine or _engine(self.rules)
            self._compiled[key] = compile_rule(rule, schema, self._engine, prove=prove)
        self._compiled.move_to_end(key)
        while len(self._compiled) > MOST_COMPILED:
            self._compiled.popitem(last=False)[1].close()
        return self._compiled[key]

    def close(self) -> None:
        """Take everything out of the engine, which others may use."""
        while self._compiled:
            self._compiled.popitem()[1].close()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.sets: list[CachedRules] = []
        self.engines: dict[tuple[str, bytes | None], Engine] = {}


_thread = _Thread()


def cached_rules(rules: Rules) -> CachedRules:
    """This thread's engine and compiled rules for rules that equal these."""
    found = next((each for each in _thread.sets if _same_rules(each.rules, rules)), None)
    if found is None:
        found = CachedRules(rules)
    else:
        _thread.sets.remove(found)
    _thread.sets.append(found)
    while len(_thread.sets) > MOST_RULE_SETS:
        _thread.sets.pop(0).close()
    return found


def forget() -> None:
    """Let go of all rules, and with them of whatever users' functions have kept; plain engines stay."""
    while _thread.sets:
        _thread.sets.pop().close()
    forget_functions()


def _same_rules(left: Rules, right: Rules) -> bool:
    return left is right or (left.sources == right.sources and left.settings == right.settings)


def _engine(rules: Rules) -> Engine:
    """One of its own for rules with functions, else the thread's."""
    settings = rules.settings
    if rules.loaded or rules.models:
        functions = [*(loaded.engine() for loaded in rules.loaded), *(model.engine() for model in rules.models)]
        return Engine(zone=settings.zone, functions=functions, hash_key=settings.hash_key)
    key = (settings.zone, settings.hash_key)
    if key not in _thread.engines:
        _thread.engines = {key: Engine(zone=settings.zone, hash_key=settings.hash_key)}
    return _thread.engines[key]
