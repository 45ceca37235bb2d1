"""DuckDB: the embedded default sink."""
