"""Values against the sink's columns: checks, conversions, and what becomes of rejected values."""
