"""Talks to a running MySQL or MariaDB server: connections, checks, positions, GTIDs, table definitions."""
