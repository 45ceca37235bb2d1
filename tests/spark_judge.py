"""Rows of Iceberg tables as Spark reads them, with Iceberg's own Java library.

In a process of its own: the Spark that the library is there for is older than ours. Without it
(`python -m cdc_services install iceberg-spark`) the tests that need it are skipped, or fail when
`CDC_REQUIRE_SERVICES` names iceberg-spark.
"""

from __future__ import annotations

import os
import sys

from reading_process import ReadingProcess
from servers import missing

from cdc_services.iceberg import spark

_SCRIPT = """
import os, shutil, sys, pickle, tempfile, traceback
folder, jar = sys.argv[1:]
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path.insert(0, folder)
from pyspark.sql import SparkSession
options = {
    "spark.jars": jar, "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}
builder = SparkSession.builder.master("local[1]")
for name, value in options.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
with tempfile.TemporaryDirectory() as tables:
    for number, line in enumerate(sys.stdin):
        try:
            path, _, where = line.rstrip("\\n").partition("\\t")
            # A folder as Hadoop's catalog has it, whose only version is this one: all other paths in it are absolute.
            metadata = os.path.join(tables, str(number), "metadata")
            os.makedirs(metadata)
            shutil.copy(path.removeprefix("file://"), os.path.join(metadata, "v1.metadata.json"))
            with open(os.path.join(metadata, "version-hint.text"), "w") as hint:
                hint.write("1")
            frame = session.read.format("iceberg").load("file://" + os.path.dirname(metadata))
            answer = [row.asDict() for row in (frame.where(where) if where else frame).collect()]
        except Exception:
            answer = traceback.format_exc()[:3000]
        pickle.dump(answer, answers)
        answers.flush()
"""


class Judge(ReadingProcess):
    """A process of Spark; one table after another."""

    def __init__(self) -> None:
        try:
            found = spark.find()
        except LookupError as error:
            missing(spark.NAME, str(error))
        if found is None:
            missing(spark.NAME, f"Spark with Iceberg is not installed: python -m cdc_services install {spark.NAME}")
        environ = {**os.environ, "JAVA_HOME": str(found.java.parents[1]), "SPARK_HOME": str(found.folder / "pyspark")}
        environ |= {"PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "PYTHONPATH": str(found.folder)}
        command = [sys.executable, "-S", "-c", _SCRIPT, str(found.folder), str(found.folder / spark.JAR)]
        super().__init__(command, environ, quiet=True)
