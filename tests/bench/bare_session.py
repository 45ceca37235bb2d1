"""One streaming micro-batch in a PySpark session: `bare_session.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

folder = Path(sys.argv[1])
(folder / "in").mkdir()
(folder / "in" / "rows.txt").write_text("one\ntwo\n")
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.text(str(folder / "in"))


def batch(rows: DataFrame, number: int) -> None:
    print(f"batch {number}: {rows.count()} rows")


query = lines.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
query.trigger(availableNow=True).start().awaitTermination()
print("batch done", flush=True)
spark.stop()
