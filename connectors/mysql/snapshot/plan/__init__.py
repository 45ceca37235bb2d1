"""Which tables are copied, in which chunks, in which batch."""
