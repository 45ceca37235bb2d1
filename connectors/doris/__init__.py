"""Apache Doris 2.0 and later: rows by stream load in two phases, schema changes by SQL."""
