"""Client of AI model servers with OpenAI's protocol: chat completions and embeddings. Executor.

Transient errors (no connection, timeout, 408, 429, 5xx) are retried for a while; others are final. The server's
certificate is verified, redirects and proxies are not followed, and messages never contain the key.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cdc.errors import CdcError, ModelUnavailable, TransformError
from cdc.retry import Backoff, RetryPolicy
from cdc.transform.texts import Model

EMBEDDED = 64
"""Maximum number of texts in one request for embeddings."""


@dataclass(frozen=True, slots=True)
class Patience:
    """A client's retry policy and its sleep function."""

    policy: RetryPolicy
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


RETRY = Patience(RetryPolicy(timeout_s=20.0, first_pause_s=0.5, longest_pause_s=5.0))
"""Retries inside a task; then the engine repeats the task, for as long as `retry-timeout` and until a stop."""

_LONGEST_ANSWER = 64 << 20
_SHOWN = 300
_PASSING = frozenset({408, 429})
_ABOUT_THE_INPUT = frozenset({400, 413, 422})
_KEY_REFUSED = frozenset({401, 403})


_IMAGES = {
    "png": rb"\x89PNG\r\n\x1a\n", "jpeg": rb"\xff\xd8\xff", "gif": rb"GIF8[79]a", "webp": rb"RIFF.{4}WEBP",
}  # fmt: skip
"""Kinds of images, and the pattern that their bytes begin with."""
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.IGNORECASE | re.DOTALL)


class InputRefused(Exception):
    """The server refuses this input; it may accept others."""


class ModelClient:
    """Client of one model, used in an `async with`; any number of concurrent requests share its connections."""

    def __init__(self, model: Model, patience: Patience = RETRY) -> None:
        import httpx

        self._model, self._patience = model, patience
        self._where = f"model {model.name} ({model.url})"
        verified = ssl.create_default_context()  # verifies, regardless of PYTHONHTTPSVERIFY
        # `request.timeout` limits a whole request, for which httpx has no setting
        self._http = httpx.AsyncClient(verify=verified, timeout=None, follow_redirects=False, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the embedding of each of up to `EMBEDDED` texts.

        Raises InputRefused, ModelUnavailable once retries are exhausted, and TransformError for final errors.
        """
        body = {**self._model.embedding_body, "model": self._model.model, "input": list(texts)}
        answer = await self._post("/embeddings", body)
        try:
            found = sorted(answer["data"], key=lambda each: each["index"])
            vectors = [[float(number) for number in each["embedding"]] for each in found]
            indices = [each["index"] for each in found]
        except (LookupError, TypeError, ValueError) as error:
            raise self._strange("an embedding for each text") from error
        if indices != list(range(len(texts))):
            raise self._strange("an embedding for each text")
        return vectors

    async def chat(self, system: str, text: str) -> str:
        """Return the answer to a text, or about the image at its URL; `system`: the system message. Raises as above."""
        return await self._answer(system, [_image_part(text)] if self._model.image_urls else text)

    async def about_image(self, image: bytes, prompt: str) -> str:
        """Return the answer about an image. Raises as above; InputRefused for bytes that are not an image."""
        kind = next((kind for kind, start in _IMAGES.items() if re.match(start, image, re.DOTALL)), None)
        if kind is None:
            raise InputRefused(f"{self._where}: the bytes are not a PNG, JPEG, GIF or WebP image")
        url = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
        return await self._answer(self._model.prompt, [{"type": "text", "text": prompt}, _image_part(url)])

    def json_of(self, answer: str) -> str:
        """Return an answer that has to be JSON without the code fences that models often add. Raises InputRefused."""
        text = _FENCED.sub(r"\1", answer).strip()
        try:
            json.loads(text, parse_constant=_no_json)
        except (ValueError, RecursionError) as error:
            shown = answer if len(answer) <= _SHOWN else f"{answer[:_SHOWN]}..."
            raise InputRefused(f"{self._where}: the answer is not JSON: {shown}") from error
        return text

    async def _answer(self, system: str, content: object) -> str:
        turns = [("system", system), ("user", content), ("user", self._model.user_prompt)]
        messages = [{"role": role, "content": each} for role, each in turns if each]
        response = await self._post(
            "/chat/completions", {**self._model.chat_body, "model": self._model.model, "messages": messages}
        )
        try:
            answer = response["choices"][0]["message"]["content"]
        except (LookupError, TypeError) as error:
            raise self._strange("choices[0].message.content") from error
        if answer is None:
            raise InputRefused(f"{self._where}: the answer has no content")
        if not isinstance(answer, str):
            raise self._strange("text in choices[0].message.content")
        return answer

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        data, backoff = json.dumps(body).encode("ascii"), Backoff(self._patience.policy, self._where)
        while True:
            try:
                return await self._once(path, data)
            except CdcError as error:
                pause_s = backoff.next_pause_s(str(error)) if error.retryable else None
                if pause_s is None:
                    raise
            await self._patience.sleep(pause_s)

    async def _once(self, path: str, data: bytes) -> Any:
        import httpx

        try:
            async with asyncio.timeout(self._model.timeout_s):
                status, text = await self._exchanged(path, data)
        except TimeoutError as error:
            raise self._unavailable(f"no answer within {self._model.timeout_s:g} s") from error
        except (httpx.HTTPError, OSError) as error:
            raise self._unsent_error(error) from error
        if status != 200:
            raise self._refusal(status, text)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._strange("JSON") from error

    async def _exchanged(self, path: str, data: bytes) -> tuple[int, bytes]:
        """Send the request and return status and body of the response."""
        key = f"Bearer {self._model.api_key}"
        headers = {"Content-Type": "application/json", "Authorization": key, **self._model.headers}
        found = bytearray()
        async with self._http.stream("POST", f"{self._model.url}{path}", content=data, headers=headers) as response:
            async for part in response.aiter_bytes():
                found += part
                if len(found) > _LONGEST_ANSWER:
                    raise self._strange(f"at most {_LONGEST_ANSWER >> 20} MiB")
        return response.status_code, bytes(found)

    def _unsent_error(self, error: Exception) -> CdcError:
        """Return the error for a request without a response."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            hint = "SSL_CERT_FILE names a file of further certificates to trust"
            reason = f"the server's certificate is not trusted: {cause.verify_message}"
            return TransformError(reason, where=self._where, hint=hint)
        return self._unavailable(f"no answer: {type(error).__name__}: {error}")

    def _refusal(self, status: int, body: bytes) -> Exception:
        answered = body.decode("utf-8", "replace").replace(self._model.api_key, "***").strip()[:_SHOWN]
        text = f"HTTP {status}{': ' if answered else ''}{answered}"
        if status in _PASSING or status >= 500:
            return self._unavailable(text)
        if status in _ABOUT_THE_INPUT:
            return InputRefused(f"{self._where}: {text}")
        if status in _KEY_REFUSED:
            hint = "give the model an API key that may use it"
            return TransformError(f"the server refuses the key: HTTP {status}", where=self._where, hint=hint)
        return TransformError(text, where=self._where, hint="check the model's address and name")

    def _unavailable(self, text: str) -> ModelUnavailable:
        return ModelUnavailable(text, where=self._where, hint="the request is repeated until retry-timeout")

    def _strange(self, expected: str) -> TransformError:
        hint = "the model's address must be a server with OpenAI's protocol"
        return TransformError(f"{expected} was expected in the answer", where=self._where, hint=hint)


def _image_part(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
