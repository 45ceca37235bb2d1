"""DuckDB with its Iceberg extension, as the reader that judges what the sink writes: three packages of PyPI."""
