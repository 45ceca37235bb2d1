"""`pipeline.model`: the AI models that rules ask, as Flink CDC's files have them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator

from cdc.options import AtLeast, Block, Duration, Field, Line, Remark, SecretStr
from cdc.spec import tree
from cdc.transform.texts import Model

PATH: tree.Path = ("pipeline", "model")

_KEY = "openai.apikey"
_URL = "write https://HOST or https://HOST/v1"


_CLASSES = {name.lower(): name for name in ("OpenAIChatModel", "OpenAIEmbeddingModel")}


def _class_name(text: object) -> object:
    return _CLASSES.get(text.strip().lower(), text) if isinstance(text, str) else text


class ModelBlock(Block):
    """An AI model on a server with OpenAI's protocol, for transforms: a function of one text."""

    name: str = Field(
        alias="model-name",
        pattern=r"^([A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]*$",
        description="Name in expressions, in any case.",
    )
    class_name: Annotated[Literal["OpenAIChatModel", "OpenAIEmbeddingModel"], BeforeValidator(_class_name)] = Field(
        alias="class-name",
        description="`OpenAIChatModel` answers with text, `OpenAIEmbeddingModel` with the text's embedding.",
    )
    model: Line = Field(alias="openai.model", min_length=1, description="The model's name on the server.")
    host: Line = Field(
        alias="openai.host",
        min_length=1,
        description="The server's URL: `/chat/completions` or `/embeddings` is added, after `/v1` when it has no path.",
    )
    api_key: SecretStr = Field(alias="openai.apikey", description="Key that the server asks for, kept secret.")
    prompt: str | None = Field(
        None,
        alias="openai.chat.prompt",
        description="What a chat model is told before each text, as the system message.",
    )
    allow_http: bool = Field(
        False,
        alias="openai.allow-http",
        description="Whether key and texts may go over the network unencrypted: an `http://` host that is not this "
        "machine.",
    )
    timeout_s: Annotated[Duration, AtLeast("1 s")] = Field(
        60.0, alias="request.timeout", description="The longest wait for an answer, before the text is asked again."
    )
    parallel: int = Field(
        4, ge=1, le=256, alias="request.parallelism", description="Most requests at a time, for each task."
    )

    def problems(self) -> Iterator[Remark]:
        """A host that can be asked, a key that can be sent, a prompt where there is a chat."""
        key = self.api_key.get_secret_value()
        if not re.fullmatch(r"[!-~]+", key):
            yield Remark("openai.apikey", "must be printable ASCII without spaces")
        if self.prompt is not None and self.class_name != "OpenAIChatModel":
            yield Remark("openai.chat.prompt", "is for OpenAIChatModel", "remove the key")
        url = _split(self.host)
        if url is None:
            yield Remark("openai.host", "must be a URL without user, query and fragment", _URL)
        elif url.scheme == "http" and not self.allow_http and not _is_loopback(url.hostname or ""):
            hint = "write https://, or set openai.allow-http: true"
            yield Remark("openai.host", "would send the key and all texts unencrypted", hint)

    def asked(self) -> Model:
        """For the rules."""
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


def without_keys(blocks: list[dict[str, object]] | None) -> list[dict[str, object]] | None:
    """The blocks as they may be shown, with stars for the keys; `ModelBlock` has them."""
    return blocks and [{**block, **({_KEY: "**********"} if _KEY in block else {})} for block in blocks]


def distinct(blocks: Iterable[tuple[int, ModelBlock]], taken: Iterable[str]) -> tuple[list[Model], list[int]]:
    """The models, given with their numbers in the list, and the numbers of those whose name is `taken` or doubled."""
    names, made, doubled = {name.upper() for name in taken}, list[Model](), list[int]()
    for number, block in blocks:
        if block.name.upper() in names:
            doubled.append(number)
        else:
            names.add(block.name.upper())
            made.append(block.asked())
    return made, doubled


def _split(text: str) -> SplitResult | None:
    """The parts of a URL that can be asked, None for others."""
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
