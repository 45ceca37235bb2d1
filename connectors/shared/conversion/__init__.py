"""Checks values against the sink's columns, converts them, and handles rejected ones."""
