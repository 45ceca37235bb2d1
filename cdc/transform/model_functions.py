"""Functions that query a model named in the expression: `AI_COMPLETE('small', note, 'Summarise this')`.

Defines the instructions of each function and its result. Text functions return JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as Choice

from cdc.transform.types import FLOAT, INT, JSON, STRING, Array, SqlType

NO_IMAGES = "AI_IMAGE_EMBED"
"""A function of Flink CDC that none of its models supports, nor any here."""


@dataclass(frozen=True)
class Form:
    """The definition of one function.

    Attributes:
        kind: the request: an answer to a text, an answer about an image, or the embedding of a text.
        result: type of the answers.
        more: names and types of the arguments after the model's name and the input.
        task: the instructions for the model, with a `{}` for each of those arguments.
        fields: fields of the JSON object to answer with; none for an answer that is not JSON.
    """

    kind: Choice["chat", "image", "embedding"]
    result: SqlType
    more: tuple[tuple[str, SqlType], ...] = ()
    task: str = ""
    fields: tuple[str, ...] = ()

    def system_message(self, prompt: str, more: Sequence[str]) -> str:
        """Return the system message: the model's prompt in the file, the task, and the format of the answer."""
        fields = ", ".join(f'"{name}": ...' for name in self.fields)
        parts = [prompt, self.task.format(*more), f"Answer with one JSON object and nothing else: {{{fields}}}"]
        return "\n".join(part for part in parts[: None if self.fields else 2] if part)


FORMS: dict[str, Form] = {
    "AI_COMPLETE": Form("chat", JSON, (("prompt", STRING),), "{}", ("result",)),
    "AI_CLASSIFY": Form(
        "chat", JSON, (("labels", STRING),),
        "Say which one of these labels fits the text best: {}. Write the label into category as it stands here, and "
        "how sure you are, from 0 to 1, into confidence.",
        ("category", "confidence"),
    ),
    "AI_TRANSLATE": Form(
        "chat", JSON, (("source_lang", STRING), ("target_lang", STRING)),
        "Translate the text from the language {} (auto: find out which it is) to the language {}, and nothing else. "
        "Write the language that it was in into detected_language.",
        ("translated_text", "detected_language"),
    ),
    "AI_SUMMARIZE": Form(
        "chat", JSON, (("max_length", INT),),
        "Summarise the text in its own language, in at most {} characters. Keep to what it says.", ("summary",),
    ),
    "AI_SENTIMENT": Form(
        "chat", JSON, (),
        "Judge the mood of the text: score from -1 (bad) to 1 (good), label as positive, negative or neutral, and how "
        "sure you are, from 0 to 1, as confidence.",
        ("score", "label", "confidence"),
    ),
    "AI_EXTRACT": Form(
        "chat", JSON, (("schema", STRING),),
        "Take these fields out of the text: {}. What the text does not say is null. Write them as an object into "
        "extracted_json.",
        ("extracted_json",),
    ),
    "AI_MASK": Form(
        "chat", JSON, (("entities", STRING),),
        "Replace what the text has of these kinds by ***: {}. Leave all else as it is. Write the kinds that you found "
        "as a list into detected_entities.",
        ("masked_text", "detected_entities"),
    ),
    "AI_IMAGE_COMPLETE": Form("image", STRING, (("prompt", STRING),)),
    "AI_EMBED": Form("embedding", Array(FLOAT)),
}  # fmt: skip
"""Definitions by function name."""
