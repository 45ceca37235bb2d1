"""Change data capture pipelines in YAML, run as one Spark Structured Streaming job."""

__version__ = "0.1.0"
__all__ = ["__version__"]
