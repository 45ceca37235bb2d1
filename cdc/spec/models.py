"""`pipeline.model`: the AI models that rules use, declared as in Flink CDC."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator

from cdc.options import AnyCase, AtLeast, Block, Duration, Field, Line, Remark, SecretStr
from cdc.spec import tree
from cdc.transform.texts import Model

PATH: tree.Path = ("pipeline", "model")

_SECRETS = ("openai.apikey", "api-key", "extra-header")
_NAME = r"^([A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]*$"
_RETRIED = "a request is retried with growing pauses for retry-timeout"
_URL = "write https://HOST or https://HOST/v1"


_CLASSES = {name.lower(): name for name in ("OpenAIChatModel", "OpenAIEmbeddingModel")}


def _class_name(text: object) -> object:
    return _CLASSES.get(text.strip().lower(), text) if isinstance(text, str) else text


_TIMEOUT: Any = Field(
    60.0,
    alias="request.timeout",
    description="Timeout of a whole request, to the end of its response; then it is retried.",
)
_PARALLEL: Any = Field(
    4, ge=1, le=256, alias="request.parallelism", description="Maximum number of concurrent requests per task."
)
"""Common to both ways of declaring a model."""


class ModelBlock(Block):
    """An AI model on a server with OpenAI's API, as a function of one text."""

    name: str = Field(
        alias="model-name",
        pattern=_NAME,
        description="Name in expressions, case-insensitive.",
    )
    class_name: Annotated[Literal["OpenAIChatModel", "OpenAIEmbeddingModel"], BeforeValidator(_class_name)] = Field(
        alias="class-name",
        description="`OpenAIChatModel` returns text, `OpenAIEmbeddingModel` the text's embedding.",
    )
    model: Line = Field(alias="openai.model", min_length=1, description="The model's name on the server.")
    host: Line = Field(
        alias="openai.host",
        min_length=1,
        description="The server's URL: `/chat/completions` or `/embeddings` is added, after `/v1` when it has no path.",
    )
    api_key: SecretStr = Field(alias="openai.apikey", description="Key for the server's API.")
    prompt: str | None = Field(
        None,
        alias="openai.chat.prompt",
        description="System message of a chat model, before each text.",
    )
    allow_http: bool = Field(
        False,
        alias="openai.allow-http",
        description="Whether key and texts may be sent unencrypted: an `http://` host that is not this machine.",
    )
    timeout_s: Annotated[Duration, AtLeast("1 s")] = _TIMEOUT
    parallel: int = _PARALLEL

    def problems(self) -> Iterator[Remark]:
        """Yield problems of the address, the key, and a prompt without a chat model."""
        yield from _key_problems(self.api_key, "openai.apikey")
        if self.prompt is not None and self.class_name != "OpenAIChatModel":
            yield Remark("openai.chat.prompt", "is for OpenAIChatModel", "remove the key")
        yield from _address_problems(self.host, "openai.host", self.allow_http, "openai.allow-http")

    def for_rules(self) -> Model:
        """Return the model for the rules."""
        url = self.host.strip().rstrip("/")
        return Model(
            name=self.name,
            kind="chat" if self.class_name == "OpenAIChatModel" else "embedding",
            model=self.model,
            url=url if urlsplit(url).path else f"{url}/v1",
            api_key=self.api_key.get_secret_value(),
            prompt=self.prompt or "",
            timeout_s=self.timeout_s,
            parallel=self.parallel,
        )


class NamedModel(Block):
    """An AI model for `AI_COMPLETE('name', ...)` and the other `AI_` functions."""

    name: str = Field(pattern=_NAME, description="Name in the calls, case-insensitive.")
    type: Line = Field(description="The server's API: `openai-compatible`.")
    options: dict[str, object] = Field(description="Options of the server and the model.")

    def problems(self) -> Iterator[Remark]:
        """Yield a problem for an unknown protocol."""
        if self.type.strip().lower() != "openai-compatible":
            yield Remark(
                "type", f"there are no models of type {self.type}", "openai-compatible speaks OpenAI's protocol"
            )


class ModelOptions(Block):
    """Options of a model of `type: openai-compatible`."""

    flink_only: ClassVar[dict[str, str]] = {
        "n": "only one response is used",
        "retry-num": _RETRIED,
        "retry-backoff-strategy": _RETRIED,
        "retry-backoff-base-interval": _RETRIED,
    }

    model: Line | None = Field(None, min_length=1, description="The model's name on the server.")
    model_name: Line | None = Field(None, alias="model-name", min_length=1, description="The same as `model`.")
    endpoint: Line = Field(
        min_length=1, description="The server's URL, to which `/chat/completions` or `/embeddings` is added."
    )
    api_key: SecretStr = Field(alias="api-key", description="Key for the server's API.")
    system_prompt: str | None = Field(
        None, alias="system-prompt", description="System message before each function's own instructions."
    )
    user_prompt: str | None = Field(
        None, alias="user-prompt", description="An additional user message after each input."
    )
    temperature: float | None = Field(None, description="As in OpenAI's API, like the following keys.")
    top_p: float | None = Field(None, alias="top-p", description="As in OpenAI's API.")
    stop: str | None = Field(None, description="As in OpenAI's API.")
    max_tokens: int | None = Field(None, alias="max-tokens", description="As in OpenAI's API.")
    presence_penalty: float | None = Field(None, alias="presence-penalty", description="As in OpenAI's API.")
    frequency_penalty: float | None = Field(None, alias="frequency-penalty", description="As in OpenAI's API.")
    seed: int | None = Field(None, description="As in OpenAI's API.")
    response_format: Annotated[Literal["text", "json_object"], AnyCase] | None = Field(
        None, alias="response-format", description="`json_object` makes servers that support it respond with JSON only."
    )
    content_type: Annotated[Literal["text", "image_url"], AnyCase] = Field(
        "text", alias="content-type", description="Kind of the input of text functions: text, or the URL of an image."
    )
    dimension: int | None = Field(None, ge=1, description="Length of the requested embeddings.")
    extra_header: str | None = Field(
        None,
        alias="extra-header",
        description="Additional request headers, as a string with a JSON object. Never shown.",
    )
    extra_body: str | None = Field(
        None, alias="extra-body", description="Additional request fields, as a string with a JSON object."
    )
    error_handling: Annotated[Literal["retry", "failover", "ignore"], AnyCase] = Field(
        "retry",
        alias="error-handling-strategy",
        description="`retry` and `failover`: retried for `retry-timeout`, then the run stops. `ignore` is refused.",
    )
    fallback: Annotated[Literal["failover", "ignore"], AnyCase] = Field(
        "failover", alias="retry-fallback-strategy", description="`failover`: the run stops. `ignore` is refused."
    )
    allow_http: bool = Field(
        False,
        alias="allow-http",
        description="Whether key and texts may be sent unencrypted: an `http://` endpoint that is not this machine.",
    )
    timeout_s: Annotated[Duration, AtLeast("1 s")] = _TIMEOUT
    parallel: int = _PARALLEL

    def problems(self) -> Iterator[Remark]:
        """Yield problems of the model's name, the address, the key, and strategies that would lose answers."""
        if (self.model is None) == (self.model_name is None):
            fault = "is missing" if self.model is None else "is another spelling of model"
            yield Remark("model" if self.model is None else "model-name", fault, "`model: NAME` names it on the server")
        yield from _key_problems(self.api_key, "api-key")
        yield from _address_problems(self.endpoint, "endpoint", self.allow_http, "allow-http")
        for key, text in (("extra-header", self.extra_header), ("extra-body", self.extra_body)):
            if text is not None and _object(text) is None:
                yield Remark(key, "must be a JSON object in text", """such as '{"a": "b"}'""")
        strategies = (("error-handling-strategy", self.error_handling), ("retry-fallback-strategy", self.fallback))
        for key, value in strategies:
            if value == "ignore":
                hint = "on-error: null in the rule makes a text that the model refuses NULL, and counts it"
                yield Remark(key, "`ignore` would lose answers while the server is unavailable", hint)

    def for_rules(self, name: str) -> Model:
        """Return the model with this name for the rules."""
        extra = _object(self.extra_body or "{}") or {}
        chat = {
            "temperature": self.temperature, "top_p": self.top_p, "stop": self.stop, "max_tokens": self.max_tokens,
            "presence_penalty": self.presence_penalty, "frequency_penalty": self.frequency_penalty, "seed": self.seed,
            "response_format": {"type": self.response_format} if self.response_format else None,
        }  # fmt: skip
        dimensions = {} if self.dimension is None else {"dimensions": self.dimension}
        return Model(
            name=name,
            kind="named",
            model=self.model or self.model_name or "",
            url=self.endpoint.strip().rstrip("/"),
            api_key=self.api_key.get_secret_value(),
            prompt=self.system_prompt or "",
            timeout_s=self.timeout_s,
            parallel=self.parallel,
            user_prompt=self.user_prompt or "",
            image_urls=self.content_type == "image_url",
            chat_body={key: value for key, value in chat.items() if value is not None} | extra,
            embedding_body=dimensions | extra,
            headers={key: str(value) for key, value in (_object(self.extra_header or "{}") or {}).items()},
        )


def with_model_list(root: tree.Mapping) -> tree.Mapping:
    """Turn a single `pipeline.model` of the file into a list."""
    one = tree.find(root, PATH)
    if not isinstance(one, tree.Mapping):
        return root
    block = root.items["pipeline"]
    assert isinstance(block, tree.Mapping), "it holds the model"
    blocks = dataclasses.replace(block, items={**block.items, "model": tree.Listing(one.mark, (one,))})
    return dataclasses.replace(root, items={**root.items, "pipeline": blocks})


def is_named(block: tree.Node | None) -> bool:
    """Whether a block of the list is a `NamedModel`; others are a `ModelBlock`."""
    return isinstance(block, tree.Mapping) and not {"model-name", "class-name"} & block.items.keys()


def without_keys(blocks: list[dict[str, object]] | None) -> list[dict[str, object]] | None:
    """Return the blocks with secrets masked; `ModelBlock` and `ModelOptions` have the values."""
    return blocks and [_starred(block) for block in blocks]


def _starred(block: Mapping[str, object]) -> dict[str, object]:
    secret = {key: "**********" for key in _SECRETS if key in block}
    options = block.get("options")
    return {**block, **secret, **({"options": _starred(options)} if isinstance(options, dict) else {})}


def distinct(models: Iterable[tuple[int, Model]], reserved: Iterable[str]) -> tuple[list[Model], list[int]]:
    """Return the models, and the list indexes of those with a duplicate name; `models` are given with their list index.

    `reserved` are the names of functions, which `named` models may have too.
    """
    functions, names, accepted, doubled = {name.upper() for name in reserved}, set[str](), list[Model](), list[int]()
    for number, model in models:
        name = model.name.upper()
        if name in names or (model.kind != "named" and name in functions):
            doubled.append(number)
        else:
            names.add(name)
            accepted.append(model)
    return accepted, doubled


def _key_problems(key: SecretStr, name: str) -> Iterator[Remark]:
    if not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        yield Remark(name, "must be printable ASCII without spaces")


def _address_problems(address: str, name: str, allow_http: bool, allows: str) -> Iterator[Remark]:
    url = _split_url(address)
    if url is None:
        yield Remark(name, "must be a URL without user, query and fragment", _URL)
    elif url.scheme == "http" and not allow_http and not _is_loopback(url.hostname or ""):
        yield Remark(name, "would send the key and all texts unencrypted", f"write https://, or set {allows}: true")


def _object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object, None for other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _split_url(text: str) -> SplitResult | None:
    """Split a URL that can be used, None for others."""
    try:
        url = urlsplit(text.strip())
        sound = url.port != 0 and url.hostname and not (url.username or url.password or url.query or url.fragment)
    except ValueError:
        return None
    plain = re.fullmatch(r"[!-~]+", text.strip()) is not None
    return url if sound and plain and url.scheme in ("http", "https") else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
