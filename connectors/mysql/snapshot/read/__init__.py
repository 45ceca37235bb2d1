"""Reads chunks: a view of the table, its rows from the socket, and the log of the same period."""
