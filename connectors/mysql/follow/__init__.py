"""Follows the log ahead of the batches, cuts it into segments, and goes on with another server."""
