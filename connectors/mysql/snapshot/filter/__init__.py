"""Skips log rows that chunks hold already, or will hold."""
