"""Follows the log ahead of the batches, splits it into segments, and continues on another server."""
