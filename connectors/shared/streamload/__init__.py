"""Stream load as Doris and StarRocks have it: load text, HTTP, labels, tables and their changes by SQL."""
