"""`pipeline.spark.*`: settings of Spark in the pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest
from together import together

from cdc.errors import EngineError, SpecError
from cdc.job.control import RunControl
from cdc.job.run import run
from cdc.job.spark.session import session_settings
from cdc.job.spark.shared import SharedSpark
from cdc.spec.check import check
from cdc.spec.model import PipelineSpec

FILE = """
source: {type: values, rows: []}
sink: {type: values, path: out.jsonl}
pipeline:
  name: shop
"""


def with_settings(*lines: str) -> PipelineSpec:
    return check("p.yaml", (FILE + "".join(f"  {line}\n" for line in lines)).encode(), env={}).spec


def test_settings_of_the_file_win_over_the_tools_and_the_environment_over_them() -> None:
    spec = with_settings("spark.executor.memory: 2g", "spark.cores.max: 4", "spark.sql.shuffle.partitions: 3")
    environment = {"CDC_SPARK_CONF": "spark.cores.max=2"}
    settings = session_settings("shop", "local[1]", environment, Path("/scratch"), given=spec.pipeline.spark)
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.cores.max"] == "2"
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.app.name"] == "shop"


@together(
    "line, said",
    [
        ("spark.master: local[2]", "p.yaml:6:.*spark.master: cannot be set here .say `--master`"),
        ("spark.app.name: x", "pipeline.name"),
        ("spark.hadoop.fs.s3a.secret.key: hunter2", "is a secret"),
        ("spark.authenticate.secret: hunter2", "CDC_SPARK_CONF"),
        ("spark.executor.memory: [hunter2]", "must be a single value"),
    ],
)
def test_what_is_not_the_files_to_say_is_refused_without_the_value(line: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        with_settings(line)
    assert "hunter2" not in str(caught.value)


def test_a_pipeline_that_shares_its_spark_with_others_is_refused_with_the_keys(tmp_path: Path) -> None:
    shared = SharedSpark(tmp_path / "server", "local[1]", (), lambda text, level: None)
    spec = with_settings("spark.executor.memory: 2g")
    with pytest.raises(EngineError, match=r"cannot have its own spark\.executor\.memory"):
        run(spec, state_dir=tmp_path / "state", control=RunControl(shared=shared))
    assert not (tmp_path / "state").exists()
