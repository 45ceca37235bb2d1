"""Reading chunks: a view of the table, the result off the socket, and the log beside it."""
