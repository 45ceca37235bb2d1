"""What is said of a Spark that does not start."""

from __future__ import annotations

from cdc.job.session import reason_of


def test_of_an_error_from_java_the_line_with_the_reason_is_shown() -> None:
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: Exiting due to error from cluster scheduler: all masters are unresponsive\n"
        "\tat org.apache.spark.errors.SparkCoreErrors$.clusterSchedulerError(SparkCoreErrors.scala:279)"
    )
    assert reason_of(text).startswith("org.apache.spark.SparkException: Exiting due to error from cluster scheduler")
    assert reason_of("[JAVA_GATEWAY_EXITED] Java ended\nmore") == "[JAVA_GATEWAY_EXITED] Java ended"
    assert reason_of("") == "?"
