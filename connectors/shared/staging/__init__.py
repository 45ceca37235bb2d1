"""Stores the rows of a batch in files of the state directory, for sinks that write a batch in one transaction."""
