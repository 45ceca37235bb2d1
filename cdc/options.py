"""The base of every options model: declared once, frozen; JSON Schema, docs and checks follow from it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

__all__ = ["Field", "Options", "SecretStr"]


class Options(BaseModel):
    """Options of one connector or block, as written in YAML.

    Names in YAML are the aliases (dashes and dots as in Flink CDC). Unknown keys are refused. Passwords are
    `SecretStr`: they print as stars, and only `get_secret_value()` shows them.

    Class attributes of connector options:
        implementation: `module:Class` of the Source or Sink, imported when the pipeline starts, not before.
        flink_only: keys accepted for Flink CDC compatibility and ignored, each with the text that names our equivalent.
        prefixes: key prefixes passed through as they are (such as `jdbc.properties.`), each with its meaning.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)

    implementation: ClassVar[str] = ""
    flink_only: ClassVar[dict[str, str]] = {}
    prefixes: ClassVar[dict[str, str]] = {}

    type: str = Field(description="Connector name.")
    name: str | None = Field(None, description="A name for log lines; no effect on the data.")

    def build(self, context: Any) -> Any:
        """Import the implementation and make it: `Class(options, context)`. Raises ImportError with an install hint."""
        import importlib

        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(module), name)(self, context)
