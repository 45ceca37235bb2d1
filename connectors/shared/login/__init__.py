"""Logging in to servers that speak the MySQL protocol. For the MySQL source and for sinks that take SQL this way."""
