"""Parses DDL of MySQL and MariaDB: `parse` returns statements as values, wherever the text comes from."""
