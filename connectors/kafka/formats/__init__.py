"""Formats of change messages: Debezium, Canal, Maxwell and plain JSON, read column by column."""
