"""Table definitions and their history along the log."""
