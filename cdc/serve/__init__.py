"""`cdc serve`: keeps the pipelines of a folder running, or runs them on schedule, with one Spark session for all."""
