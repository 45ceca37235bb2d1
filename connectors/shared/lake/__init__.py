"""Rows and values in the form of lake tables, and what sinks of lakes share."""
