"""DDL of MySQL and MariaDB as text: `parse` gives statements as values, whatever brought the text."""
