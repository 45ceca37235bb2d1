"""Snapshots: chunks of tables, planned and read while the source follows the log."""
