"""Table definitions and their history: what holds where in the log."""
