"""Rows that were left out of the sink, kept in files."""
