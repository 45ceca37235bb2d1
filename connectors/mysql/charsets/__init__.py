"""Character sets of MySQL and MariaDB: text columns to UTF-8."""
