"""Rows of a batch in files of the state directory, for sinks whose driver writes a batch in one transaction."""
