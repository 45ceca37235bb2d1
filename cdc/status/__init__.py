"""What a run tells about itself: its status document, metrics for Prometheus, events as JSON lines. No Spark."""
