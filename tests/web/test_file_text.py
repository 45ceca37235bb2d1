"""The pipeline's file on the page: everything but its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from options_page import connectors
from together import together

from cdc.options import Block, SecretStr
from cdc.spec.model import PipelineOptions
from cdc.spec.models import ModelBlock
from cdc.web.file_text import _SECRET, file_text, masked

FILE = """\
source:
  type: mysql
  password: hunter2  # was: password: hunter1
  hostname: db
  username: reader
sink: {type: kafka, properties.sasl.jaas.config: 'x "hunter3"', password: '${SINK_PASSWORD}'}
pipeline:
  name: shop
  notify.webhook: |
    https://hooks.slack.com/hunter4
  ai:
    api-key: [hunter5, "hunter6"]
# url: mysql://reader:hunter7@db/shop
"""


def test_secrets_are_masked_and_all_else_is_as_written() -> None:
    shown = masked(FILE)
    assert "hunter" not in shown
    assert "password: ********  # was: password: ********" in shown
    assert "hostname: db\n  username: reader\n" in shown
    assert "password: '${SINK_PASSWORD}'" in shown
    assert "mysql://********@db/shop" in shown
    assert shown.count("\n") == FILE.count("\n") - 1, "the block of two lines is one"


@together("text", ["a: [", "\t: {", "a: b: c", "- " * 3000 + "x: password"])
def test_what_is_no_yaml_is_not_shown(text: str) -> None:
    assert "password" not in masked(text)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    assert "No such file" in file_text(tmp_path / "x.yaml")


def secrets() -> Iterator[str]:
    """The keys of every secret option that there is."""
    models: list[type[Block]] = [PipelineOptions, *(model for _, _, model in connectors()), *_subclasses(ModelBlock)]
    for model in models:
        for name, field in model.model_fields.items():
            if "SecretStr" in str(field.annotation) and SecretStr is not None and not _internal(field):
                yield str(field.alias or name)


def _subclasses(model: type[Block]) -> Iterator[type[Block]]:
    yield model
    for each in model.__subclasses__():
        yield from _subclasses(each)


def _internal(field: object) -> bool:
    extra = getattr(field, "json_schema_extra", None)
    return isinstance(extra, dict) and bool(extra.get("internal"))


def test_every_secret_option_is_known_by_its_key() -> None:
    found = set(secrets())
    assert len(found) > 5
    assert {key for key in found if _SECRET.search(key) is None} == set()
