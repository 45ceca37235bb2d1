"""Masters that are taken, and what is said of a Spark that does not start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cdc.errors import EngineError
from cdc.job.spark import session
from cdc.job.spark.session import (
    chosen_master,
    reason_of,
    session_settings,
    with_retries,
    without_default_executor_options,
)


def test_of_an_error_from_java_the_line_with_the_reason_is_shown() -> None:
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: Exiting due to error from cluster scheduler: all masters are unresponsive\n"
        "\tat org.apache.spark.errors.SparkCoreErrors$.clusterSchedulerError(SparkCoreErrors.scala:279)"
    )
    assert reason_of(text).startswith("org.apache.spark.SparkException: Exiting due to error from cluster scheduler")
    assert reason_of("[JAVA_GATEWAY_EXITED] Java ended\nmore") == "[JAVA_GATEWAY_EXITED] Java ended"
    assert reason_of("") == "?"


def test_a_master_of_this_machine_gets_retries_and_others_stay_as_they_are() -> None:
    masters = ("local", "local[2]", "local[*]", "local[2,1]", "spark://host:7077")
    assert [with_retries(each) for each in masters] == [
        "local[1,4]", "local[2,4]", "local[*,4]", "local[2,1]", "spark://host:7077",
    ]  # fmt: skip


def test_the_cluster_inside_of_one_process_is_refused_with_the_reason() -> None:
    with pytest.raises(EngineError, match=r"local-cluster\[2,1,512\] is for Spark's own tests"):
        with_retries("local-cluster[2,1,512]")


def test_a_process_of_spark_submit_has_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_master(None) == "local[*,4]"
    monkeypatch.setattr(session, "_submitted_master", lambda: "spark://host:7077")
    assert chosen_master(None) == chosen_master("spark://host:7077") == "spark://host:7077"
    with pytest.raises(EngineError, match=r"spark-submit has spark://host:7077, and the command local\[2\]"):
        chosen_master("local[2]")


def test_spark_starts_with_its_own_file_system_as_its_yarn_client_asks_for_what_the_raw_one_has_not() -> None:
    settings = session_settings("shop", "yarn", {"CDC_SPARK_CONF": "spark.executor.instances=2"}, Path("/tmp"))
    assert settings["spark.executor.instances"] == "2"
    assert not any(key.startswith("spark.hadoop.fs.file") for key in settings)


def test_python_beside_spark_keeps_what_is_freed_in_one_place() -> None:
    settings = session_settings("shop", "local[1]", {}, Path("/tmp"))
    assert settings["spark.executorEnv.MALLOC_ARENA_MAX"] == "1"
    assert "-Xmn32m" in settings["spark.driver.extraJavaOptions"].split()


def test_a_spark_context_of_somebody_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.SparkContext, "_active_spark_context", object())
    with pytest.raises(EngineError, match="this process has a Spark session already"), session.as_guest():
        raise AssertionError("a session begins")


def test_options_for_the_java_of_executors_are_replaced_by_the_pipeline_and_by_spark_submit() -> None:
    key, own, given = "spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1", {"CDC_SPARK_CONF": ""}
    settings = session_settings("shop", "spark://host:7077", given, Path("/tmp"))
    assert settings[key] == own
    assert key not in without_default_executor_options(settings)
    of_pipeline = session_settings("shop", "spark://host:7077", given, Path("/tmp"), given={key: "-Xss1m"})
    assert of_pipeline[key] == without_default_executor_options(of_pipeline)[key] == "-Xss1m"


@pytest.mark.parametrize(("debug", "told"), [("", False), ("1", True)])
def test_what_fails_in_a_batch_is_told_by_the_run_alone(
    debug: str, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CDC_DEBUG", debug)
    session.quiet_py4j()
    try:
        raise ValueError("no such column")
    except ValueError:
        logging.getLogger("py4j.clientserver").exception(
            "There was an exception while executing the Python Proxy on the Python Side."
        )
    logging.getLogger("py4j.clientserver").error("something else")
    assert [record.getMessage() == "something else" for record in caplog.records] == ([False] if told else []) + [True]
