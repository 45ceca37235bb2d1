"""Transform rules as the pipeline file has them: texts with their places, and what all rules share. Not parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

from cdc.transform.sqltext import SqlText

OnError = Choice["fail", "null", "dead-letter"]


@dataclass(frozen=True)
class RuleTexts:
    """A rule as it stands in the file; what is missing there is None."""

    projection: SqlText | None = None
    filter: SqlText | None = None
    primary_keys: SqlText | None = None
    partition_keys: SqlText | None = None
    table_options: SqlText | None = None
    delimiter: str = ","
    converter: SqlText | None = None
    mask: Mapping[str, SqlText] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleSource:
    """A rule as the file has it: `name` such as `transform[0]`, `tables` its table id patterns."""

    name: str
    tables: str
    texts: RuleTexts
    on_error: OnError = "fail"


@dataclass(frozen=True)
class UserFunction:
    """A function as the file has it. Loading it again in another process gives the same.

    Attributes:
        name: as rules call it, in any case.
        code: Python source with one top-level `eval`; empty when `module` is given.
        module: `package.module:function`.
        options: handed to `open`.
        paths: folders and zip files that it imports from.
    """

    name: str
    code: str = ""
    module: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """An AI model as the file has it, on a server with OpenAI's protocol.

    Attributes:
        name: as rules call it, in any case.
        kind: a function that answers with text, or with the embedding of a text; or named in calls of `AI_...`.
        model: its name on the server.
        url: to which `/chat/completions` or `/embeddings` is added.
        api_key: never printed.
        prompt: the system message before each text; empty for none.
        timeout_s: the longest that a request may take, to the end of its answer.
        parallel: most requests at a time, for each task.
        user_prompt: a further user message behind each input; empty for none.
        image_urls: inputs are URLs of images.
        chat_body, embedding_body: what requests say besides.
        headers: of requests; never printed.
    """

    name: str
    kind: Choice["chat", "embedding", "named"]
    model: str
    url: str
    api_key: str = field(repr=False)
    prompt: str = ""
    timeout_s: float = 60.0
    parallel: int = 4
    user_prompt: str = ""
    image_urls: bool = False
    chat_body: Mapping[str, Any] = field(default_factory=dict)
    embedding_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def answer_inputs(self) -> tuple[object, ...]:
        """The inputs of an answer besides name, prompt and input."""
        return self.user_prompt, self.image_urls, self.chat_body, self.embedding_body


@dataclass(frozen=True)
class RuleSettings:
    """The settings that all rules share.

    Attributes:
        zone: the session's time zone, a region name.
        metadata: names of the source's `metadata.list`.
        namespaces: the source's ids may be `namespace.schema.table`.
        functions: the user's functions.
        models: AI models that rules ask.
        hash_key: key of HASH, None without one; never printed.
        dead_letters: folder or URL of the rows that `on-error: dead-letter` leaves out; empty without one.
    """

    zone: str = "UTC"
    metadata: tuple[str, ...] = ()
    functions: tuple[UserFunction, ...] = ()
    models: tuple[Model, ...] = ()
    hash_key: bytes | None = field(default=None, repr=False)
    dead_letters: str = ""
    namespaces: bool = False
