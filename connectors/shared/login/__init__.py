"""Login to servers that speak the MySQL protocol, for the MySQL source and for sinks that accept SQL this way."""
