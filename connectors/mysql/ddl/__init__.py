"""DDL of MySQL and MariaDB as found in QUERY events: `parse` gives statements, `Catalog` applies them to definitions."""
