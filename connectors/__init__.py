"""Connectors: one folder per system, the same file names in each. How to add one: docs/write-a-connector.md."""
