"""AI models as functions of rules: each different text of a block is asked for once, several at a time.

A model does not give the same answer twice. So what decides which rows a sink has - a filter, a key, a table without a
key, `on-error: dead-letter` - cannot be made of answers: see `refuse_deciding`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

import pyarrow as pa

from cdc.errors import CdcError, SpecError
from cdc.transform.answers import Answer, Answers
from cdc.transform.conversions import engine_type
from cdc.transform.convert import Arity
from cdc.transform.engine import EngineFunction
from cdc.transform.model_client import EMBEDDED, RETRY, Client, Refused
from cdc.transform.rule import OwnFunction
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import Mistake, Span
from cdc.transform.texts import Model
from cdc.transform.typed import Typed, call, cast, columns, mistake, walk
from cdc.transform.types import FLOAT, STRING, Array, NullType, SqlType, is_text
from cdc.transform.user_types import arrow_of

if TYPE_CHECKING:
    from cdc.schema import TableSchema
    from cdc.transform.outputs import Output
    from cdc.transform.rule import Rule

_ASKS = "asks a model"
"""The value of a typed call of a model."""


class LoadedModel:
    """A model that rules can call. One thread, one task at a time: `begin` before its first block."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.result: SqlType = STRING if model.kind == "chat" else Array(FLOAT)
        self._told = json.dumps([model.kind, model.model, model.url, model.prompt]).encode()
        self._retry = RETRY
        self._answers: Answers | None = None
        self._refused: dict[str, str] = {}
        self._stopped: CdcError | None = None

    def begin(self, answers: Answers | None) -> None:
        """Begin a task; without `answers` nothing is asked, and all is NULL."""
        self._answers, self._refused, self._stopped = answers, {}, None

    def stopped(self) -> CdcError | None:
        """What ended the questions, once: the server does not answer, or refuses all. No matter of a value."""
        error, self._stopped = self._stopped, None
        return error

    def own(self) -> OwnFunction:
        """For rules."""
        return OwnFunction(Arity(1, 1), self)

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """The typed call: text to text, or to ARRAY<FLOAT>."""
        name, arg = self.model.name, args[0]
        if not (is_text(arg.type) or isinstance(arg.type, NullType)):
            raise mistake(arg.span, f"{name} takes text, got {arg.type}", "CAST(... AS STRING) makes it text")
        if not columns(arg):
            raise mistake(span, f"{name} is asked for the same text in every row", "write a column into it")
        return call(
            f"own {name.upper()}", self.result, [cast(arg, STRING)], span, nullable=True, fails=True, value=_ASKS
        )

    def engine(self) -> EngineFunction:
        """For the engine."""
        name = f"own_{self.model.name.lower()}"
        return EngineFunction(name, (engine_type(STRING),), engine_type(self.result), self._on_array, self.stopped)

    def _on_array(self, texts: pa.ChunkedArray) -> pa.Array:
        asked = [None if text is None or not text.strip() else text for text in texts.to_pylist()]
        answers = self._answers
        if answers is None:
            return pa.nulls(len(asked), arrow_of(self.result))
        if self._stopped is not None:
            raise ValueError("cdc: the model was asked in vain")
        keys = {text: self._key(text) for text in asked if text is not None}
        try:
            self._ask(answers, {text: key for text, key in keys.items() if answers.get(key) is None})
        except CdcError as error:
            self._stopped = error
            raise ValueError(f"cdc: {error}") from error
        for key in keys.values():
            if key in self._refused:
                raise ValueError(f"cdc: {self._refused[key]}")
        made = [None if text is None else answers.get(keys[text]) for text in asked]
        return pa.array(made, arrow_of(self.result))

    def _key(self, text: str) -> str:
        return hashlib.sha256(self._told + b"\0" + text.encode()).hexdigest()

    def _ask(self, answers: Answers, keys: dict[str, str]) -> None:
        """Ask for these texts and put down the answers. Raises the first error that is about no text."""
        texts = [text for text, key in keys.items() if key not in self._refused]
        if not texts:
            return
        size = 1 if self.model.kind == "chat" else EMBEDDED
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        client, error = Client(self.model, self._retry), None
        with ThreadPoolExecutor(min(self.model.parallel, len(parts))) as pool:
            for future in as_completed([pool.submit(_answered, client, part) for part in parts]):
                if future.cancelled():
                    continue
                failed = future.exception()
                if failed is None:
                    self._put(answers, keys, future.result())
                elif isinstance(failed, CdcError):
                    error = error or failed
                    pool.shutdown(wait=False, cancel_futures=True)
                else:
                    raise failed
        if error is not None:
            raise error

    def _put(self, answers: Answers, keys: dict[str, str], made: list[tuple[str, Answer | Refused]]) -> None:
        for text, answer in made:
            if isinstance(answer, Refused):
                self._refused[keys[text]] = str(answer)
            else:
                answers.put(keys[text], answer)


def _answered(client: Client, texts: Sequence[str]) -> list[tuple[str, Answer | Refused]]:
    """Texts with their answers; of several that are refused together each is asked by itself."""
    try:
        return list(zip(texts, client.ask(texts), strict=True))
    except Refused as refused:
        if len(texts) == 1:
            return [(texts[0], refused)]
        return [each for text in texts for each in _answered(client, [text])]


def asks(node: Typed) -> bool:
    """Whether a model is asked in an expression."""
    return any(each.value is _ASKS for each in walk(node) if each.op.startswith("own "))


def refuse_deciding(rule: Rule, schema: TableSchema, made: Sequence[Output], condition: Typed | None) -> None:
    """Refuse answers where another answer to the same text would leave rows in the sink that the source has not.

    `schema` is the resulting one. Raises SpecError.
    """
    problems = [
        text.problem(Mistake(span, message, hint))
        for text, span, message, hint in _deciding(rule, schema, made, condition)
    ]
    if problems:
        raise SpecError(problems)


def _deciding(
    rule: Rule, schema: TableSchema, made: Sequence[Output], condition: Typed | None
) -> Iterator[tuple[SqlText, Span, str, str]]:
    start, hint = Span(0, 1), "a model may answer otherwise next time; put the answer into a column that is no key"
    if condition is not None and rule.filter is not None and asks(condition):
        yield rule.filter.text, start, "a filter cannot ask a model", hint
    found = [output for output in made if asks(output.node)]
    if not found or rule.projection is None:
        return
    text, span = rule.projection.text, found[0].node.span
    if not schema.primary_key:
        yield text, span, "a model cannot be asked for a table without a key", "name its key with primary-keys"
    deciding = {*schema.primary_key, *(key.casefold() for key in rule.partition_keys)}
    for output in found:
        if output.column.name in deciding or output.column.name.casefold() in deciding:
            yield text, output.node.span, f"the key column {output.column.name} cannot ask a model", hint
    if rule.on_error == "dead-letter":
        message = "a rule with on-error: dead-letter cannot ask a model"
        yield text, span, message, "on-error: null makes a text that the model refuses NULL, and counts it"
