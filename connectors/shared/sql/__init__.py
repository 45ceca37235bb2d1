"""Sessions with servers that speak the MySQL protocol."""
