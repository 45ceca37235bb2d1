"""The run's account of itself: status document, metrics for Prometheus, events as JSON lines. No Spark."""
