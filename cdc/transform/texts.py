"""Unparsed transform rules of a pipeline file: texts with their positions, and common settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

from cdc.transform.sqltext import SqlText

OnError = Choice["fail", "null", "dead-letter"]


@dataclass(frozen=True)
class RuleTexts:
    """The texts of a rule; missing ones are None."""

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
    """A rule in the file: `name` such as `transform[0]`, `tables` its table id patterns."""

    name: str
    tables: str
    texts: RuleTexts
    on_error: OnError = "fail"


@dataclass(frozen=True)
class UserFunction:
    """A user function in the file. Loading it in another process gives the same function.

    Attributes:
        name: name in rules, case-insensitive.
        code: Python source with one top-level `eval`; empty when `module` is set.
        module: `package.module:function`.
        options: passed to `open`.
        paths: folders and zip files that it imports from.
    """

    name: str
    code: str = ""
    module: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """An AI model in the file, on a server with OpenAI's protocol.

    Attributes:
        name: name in rules, case-insensitive.
        kind: a function that returns text, or the embedding of a text; or a name for calls of `AI_...`.
        model: its name on the server.
        url: base URL, to which `/chat/completions` or `/embeddings` is added.
        api_key: never printed.
        prompt: the system message before each text; empty for none.
        timeout_s: time limit of a request, including its answer.
        parallel: maximum number of concurrent requests per task.
        user_prompt: a further user message after each input; empty for none.
        image_urls: whether inputs are URLs of images.
        chat_body, embedding_body: additional members of requests.
        headers: headers of requests; never printed.
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
        """Return what an answer depends on apart from name, prompt and input."""
        return self.user_prompt, self.image_urls, self.chat_body, self.embedding_body


@dataclass(frozen=True)
class RuleSettings:
    """The settings common to all rules.

    Attributes:
        zone: the session's time zone, a region name.
        metadata: names of the source's `metadata.list`.
        namespaces: the source's ids may be `namespace.schema.table`.
        functions: user functions.
        models: AI models.
        hash_key: key of HASH, None without one; never printed.
        dead_letters: folder or URL for rows rejected by `on-error: dead-letter`; empty without one.
    """

    zone: str = "UTC"
    metadata: tuple[str, ...] = ()
    functions: tuple[UserFunction, ...] = ()
    models: tuple[Model, ...] = ()
    hash_key: bytes | None = field(default=None, repr=False)
    dead_letters: str = ""
    namespaces: bool = False
