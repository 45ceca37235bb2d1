"""Options of `pipeline` for Spark itself: `spark.*`, as in Spark's documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import model_validator

from cdc.options import Block, Field, Remark

_PREFIX = "spark."
_OURS = {
    "spark.master": "say `--master`",
    "spark.app.name": "say `pipeline.name`",
    "spark.submit.deployMode": "the process of `cdc` is the driver",
    "spark.driver.extraJavaOptions": "set it in the environment variable CDC_SPARK_CONF: it replaces the tool's own",
}
_SECRET = re.compile(r"secret|password|token|credential|access[.]?key", re.IGNORECASE)


class SparkOptions(Block):
    """Spark settings for a run with its own session."""

    prefixes: ClassVar[dict[str, str]] = {
        _PREFIX: "Spark settings, such as `spark.executor.memory: 2g`. They override the tool's own; the "
        "environment variable `CDC_SPARK_CONF` overrides them. Refused by `cdc serve`, whose pipelines "
        "share one Spark application."
    }

    spark: dict[str, str] = Field(default_factory=dict, exclude=True, json_schema_extra={"internal": True})
    """Full keys and values."""

    @model_validator(mode="before")
    @classmethod
    def _gather_spark(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        found = {key: text for key, text in data.items() if str(key).startswith(_PREFIX)}
        remaining = {key: value for key, value in data.items() if key not in found}
        return {**remaining, "spark": {**remaining.get("spark", {}), **found}} if found else data


def spark_problems(settings: dict[str, str]) -> Iterator[Remark]:
    """Yield problems of settings that the tool decides, and of secrets."""
    for key in settings:
        if key in _OURS:
            yield Remark(key, "cannot be set here", _OURS[key])
        elif _SECRET.search(key):
            yield Remark(key, "is a secret, and would show in Spark's own lists", "set it in CDC_SPARK_CONF")
