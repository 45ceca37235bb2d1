"""AI models as functions of rules: one request per distinct input in a block, several concurrently.

A model's answers are not repeatable: `cdc.transform.model_use` checks where rules may use one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from cdc.errors import CdcError
from cdc.transform.answers import Answer, Answers
from cdc.transform.conversions import engine_type
from cdc.transform.convert import Arity
from cdc.transform.engine import EngineFunction
from cdc.transform.model_client import EMBEDDED, RETRY, InputRefused, ModelClient
from cdc.transform.model_functions import FORMS, Form
from cdc.transform.rule import CustomFunction
from cdc.transform.syntax import Call, Literal, Mistake, Span
from cdc.transform.texts import Model
from cdc.transform.translate import engine_name
from cdc.transform.typed import Typed, call, cast, columns, mistake
from cdc.transform.types import BYTES, FLOAT, INT, STRING, Array, NullType, SqlType, is_integer, is_text, kind_of
from cdc.transform.user_types import arrow_of
from cdc.types.kinds import BINARIES

_FORMS_OF_KINDS = {"chat": Form("chat", STRING), "embedding": Form("embedding", Array(FLOAT))}
Question = tuple[Any, ...]
"""The arguments of a function for one row, from the input on: all that the answer depends on."""


class LoadedModel:
    """A function of a model that rules can call. One thread, one task at a time: `begin` before its first block.

    Without a `form` the model itself is a function of one text; with one it is `AI_...('model', input, ...)`.
    """

    def __init__(self, model: Model, form: tuple[str, Form] | None = None) -> None:
        self.model, self.name = model, form[0] if form else model.name
        self.form = form[1] if form else _FORMS_OF_KINDS[model.kind]
        self.op = f"asks {self.name} {model.name.upper()}" if form else f"ask {model.name.upper()}"
        identity = [self.form.kind, model.model, model.url, model.prompt]
        self._identity = json.dumps([*identity, self.name, *model.answer_inputs()] if form else identity).encode()
        self._retry = RETRY
        self._answers: Answers | None = None
        self._refused: dict[str, str] = {}
        self._stopped: CdcError | None = None

    def begin(self, answers: Answers | None) -> None:
        """Begin a task; without `answers` the model is not queried, and all results are NULL."""
        self._answers, self._refused, self._stopped = answers, {}, None

    def pop_error(self) -> CdcError | None:
        """Return, once, the error that ended all requests and is not about a value: no response, or all refused."""
        error, self._stopped = self._stopped, None
        return error

    def custom_function(self) -> CustomFunction:
        """Return the function as rules call it."""
        return CustomFunction(Arity(1, 1), self)

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """Return the typed call, of text or of an image's bytes."""
        arguments, kinds = [], [self._input(args[0]), *(kind for _, kind in self.form.more)]
        for arg, kind in zip(args, kinds, strict=True):
            fits = is_integer(arg.type) if kind == INT else kind == BYTES or is_text(arg.type)
            if not (fits or isinstance(arg.type, NullType)):
                needed, hint = ("an integer", "") if kind == INT else ("text", "CAST(... AS STRING) makes it text")
                raise mistake(arg.span, f"{self.name} takes {needed}, got {arg.type}", hint)
            arguments.append(cast(arg, kind))
        if not columns(args[0]):
            raise mistake(span, f"{self.name} gets the same text in every row", "write a column into it")
        return call(self.op, self.form.result, arguments, span, nullable=True, fails=True)

    def _input(self, arg: Typed) -> SqlType:
        if self.form.kind != "image":
            return STRING
        if not (isinstance(arg.type, NullType) or kind_of(arg.type) in BINARIES):
            raise mistake(arg.span, f"{self.name} takes an image as bytes, got {arg.type}", "name a binary column")
        return BYTES

    def engine(self) -> EngineFunction:
        """Return the function as the engine calls it."""
        types = (BYTES if self.form.kind == "image" else STRING, *(kind for _, kind in self.form.more))
        arguments = tuple(map(engine_type, types))
        return EngineFunction(
            engine_name(self.op), arguments, engine_type(self.form.result), self._on_arrays, self.pop_error
        )

    def _on_arrays(self, *arrays: pa.ChunkedArray) -> pa.Array:
        questions = [_question(values) for values in zip(*(array.to_pylist() for array in arrays), strict=True)]
        answers = self._answers
        if answers is None:
            return pa.nulls(len(questions), arrow_of(self.form.result))
        if self._stopped is not None:
            raise ValueError("cdc: an earlier request to the model failed")
        keys = {question: self._key(question) for question in questions if question is not None}
        try:
            self._ask_questions(answers, {question: key for question, key in keys.items() if answers.get(key) is None})
        except CdcError as error:
            self._stopped = error
            raise ValueError(f"cdc: {error}") from error
        for key in keys.values():
            if key in self._refused:
                raise ValueError(f"cdc: {self._refused[key]}")
        results = [None if question is None else answers.get(keys[question]) for question in questions]
        return pa.array(results, arrow_of(self.form.result))

    def _key(self, question: Question) -> str:
        first, *more = question
        data = first if isinstance(first, bytes) else first.encode()
        further = b"\0".join([b"", *(str(each).encode() for each in more)])
        return hashlib.sha256(self._identity + b"\0" + data + further).hexdigest()

    def _ask_questions(self, answers: Answers, keys: dict[Question, str]) -> None:
        """Send these questions and store the answers. Raises the first error that is not about one of them."""
        questions = [question for question, key in keys.items() if key not in self._refused]
        if not questions:
            return
        size = EMBEDDED if self.form.kind == "embedding" else 1
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        with ThreadPoolExecutor(1) as thread:  # the calling thread may have an event loop, as in a notebook
            thread.submit(asyncio.run, self._ask_all(answers, keys, parts)).result()

    async def _ask_all(self, answers: Answers, keys: dict[Question, str], parts: list[list[Question]]) -> None:
        """Send as many parts concurrently as the file allows. The first failure ends all others."""
        waiting = iter(parts)

        async def ask_next(client: ModelClient) -> None:
            for part in waiting:
                self._store_answers(answers, keys, await self._answered(client, part))
                answers.save_periodically()

        try:
            async with ModelClient(self.model, self._retry) as client, asyncio.TaskGroup() as group:
                for _ in range(min(self.model.parallel, len(parts))):
                    group.create_task(ask_next(client))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed

    def _store_answers(
        self, answers: Answers, keys: dict[Question, str], answered: list[tuple[Question, Answer | InputRefused]]
    ) -> None:
        for question, answer in answered:
            if isinstance(answer, InputRefused):
                self._refused[keys[question]] = str(answer)
            else:
                answers.put(keys[question], answer)

    async def _answered(
        self, client: ModelClient, questions: Sequence[Question]
    ) -> list[tuple[Question, Answer | InputRefused]]:
        """Return questions with their answers; when several are refused together, each is sent separately."""
        try:
            return list(zip(questions, await self._answers_of(client, questions), strict=True))
        except InputRefused as refused:
            if len(questions) == 1:
                return [(questions[0], refused)]
            return [each for question in questions for each in await self._answered(client, [question])]

    async def _answers_of(self, client: ModelClient, questions: Sequence[Question]) -> list[Answer]:
        if self.form.kind == "embedding":
            return list[Answer](await client.embeddings([text for text, *_ in questions]))
        ((first, *more),) = questions
        if self.form.kind == "image":
            return [await client.about_image(first, *more)]
        answer = await client.chat(self.form.system_message(self.model.prompt, more), first)
        return [client.json_of(answer) if self.form.fields else answer]


class NamedModels:
    """A function of `FORMS`, whose first argument names the model."""

    def __init__(self, name: str, form: Form, models: Sequence[Model]) -> None:
        self.name, self.form = name, form
        self.models = {model.name.upper(): LoadedModel(model, (name, form)) for model in models}

    def custom_function(self) -> CustomFunction:
        """Return the function as rules call it."""
        count = 2 + len(self.form.more)
        return CustomFunction(Arity(count, count), self, self._wrong)

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """Return the typed call of the model that the first argument names."""
        return self.models[args[0].value.upper()].typed(args[1:], span)

    def _wrong(self, call: Call) -> Mistake | None:
        """Return the problem with the first argument of a call, None without one."""
        named = call.args[0]
        if not isinstance(named, Literal) or not isinstance(named.value, str):
            hint = f"choose between calls, such as IF(a > 1, {self.name}('x', ...), {self.name}('y', ...))"
            return Mistake(named.span, f"{self.name} takes the model's name as a text constant", hint)
        if named.value.upper() in self.models:
            return None
        known = ", ".join(each.model.name for each in self.models.values())
        return Mistake(named.span, f"there is no model {named.value}", f"pipeline.model has {known}")


def loaded_models(models: Sequence[Model]) -> tuple[tuple[LoadedModel, ...], dict[str, CustomFunction]]:
    """Return all functions of a file's models, and the functions that rules call by upper-case name."""
    single = [LoadedModel(model) for model in models if model.kind != "named"]
    named = [model for model in models if model.kind == "named"]
    functions = [NamedModels(name, form, named) for name, form in FORMS.items()] if named else []
    own = {each.model.name.upper(): each.custom_function() for each in single}
    own |= {each.name: each.custom_function() for each in functions}
    return (*single, *(model for each in functions for model in each.models.values())), own


def _question(values: tuple[Any, ...]) -> Question | None:
    """Return the question to the model; None for NULL and for a blank input."""
    return None if None in values or not values[0].strip() else values
