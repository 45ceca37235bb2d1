"""Per-thread cache of engines and compiled rules, shared by successive tasks.

Creating an engine takes 20 ms and compiling a rule for a schema 5 ms: more than the rows of a small batch. A Spark
worker process runs the tasks of one pipeline for hours, so it compiles each rule once per schema.
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
"""Maximum number of rule sets per thread: one in production, many in a suite of small cases."""

MOST_COMPILED = 2_000
"""Maximum number of compiled rules per set: more than the usual number of tables, but bounded over many schema changes.
"""


@dataclass
class CachedRules:
    """The rules of a pipeline and their compiled forms. Used by one thread only.

    Attributes:
        rules: equal to the requested rules; their functions are those registered in the engine.
    """

    rules: Rules
    _engine: Engine | None = None
    _compiled: OrderedDict[tuple[str, TableSchema, object], CompiledRule] = field(default_factory=OrderedDict)

    def compiled(self, rule: Rule, schema: TableSchema, *, prove: bool = False) -> CompiledRule:
        """Return the rule compiled for tables of this schema; `prove` as in `compile_rule`. Raises SpecError."""
        key = (rule.name, schema, schema.own_types)
        if key not in self._compiled:
            self._engine = self._engine or _engine(self.rules)
            self._compiled[key] = compile_rule(rule, schema, self._engine, prove=prove)
        self._compiled.move_to_end(key)
        while len(self._compiled) > MOST_COMPILED:
            self._compiled.popitem(last=False)[1].close()
        return self._compiled[key]

    def close(self) -> None:
        """Release all compiled rules; others may still use the engine."""
        while self._compiled:
            self._compiled.popitem()[1].close()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.sets: list[CachedRules] = []
        self.engines: dict[tuple[str, bytes | None], Engine] = {}


_thread = _Thread()


def cached_rules(rules: Rules) -> CachedRules:
    """Return this thread's engine and compiled rules for rules equal to these."""
    wanted = rules.sources, rules.settings
    found = next((each for each in _thread.sets if (each.rules.sources, each.rules.settings) == wanted), None)
    if found is None:
        found = CachedRules(rules)
    else:
        _thread.sets.remove(found)
    _thread.sets.append(found)
    while len(_thread.sets) > MOST_RULE_SETS:
        _thread.sets.pop(0).close()
    return found


def forget() -> None:
    """Drop all rules, and with them the state of user functions; engines without functions stay."""
    while _thread.sets:
        _thread.sets.pop().close()
    forget_functions()


def _engine(rules: Rules) -> Engine:
    """Return a separate engine for rules with functions, otherwise the thread's."""
    settings = rules.settings
    if rules.loaded or rules.models:
        functions = [*(loaded.engine() for loaded in rules.loaded), *(model.engine() for model in rules.models)]
        return Engine(zone=settings.zone, functions=functions, hash_key=settings.hash_key)
    key = (settings.zone, settings.hash_key)
    if key not in _thread.engines:
        _thread.engines = {key: Engine(zone=settings.zone, hash_key=settings.hash_key)}
    return _thread.engines[key]
