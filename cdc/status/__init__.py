"""The status of a run: status document, metrics for Prometheus, events as JSON lines. Independent of Spark."""
