"""Stream load of Doris and StarRocks: load text, HTTP, labels, tables and their schema changes by SQL."""
