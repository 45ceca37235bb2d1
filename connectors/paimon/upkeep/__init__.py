"""Upkeep of a table while it is written to: files and manifests are merged, old snapshots expire."""
