"""DDL of MySQL and MariaDB as QUERY events carry it: `parse` gives statements, `Catalog` applies them."""
