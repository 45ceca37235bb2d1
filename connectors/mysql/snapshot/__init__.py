"""Initial snapshot: chunks of tables, planned and read while the log goes on."""
