"""`cdc serve`: keeps the pipelines of a folder running, or runs them on schedule, in one shared Spark session."""
