"""Character sets of MySQL and MariaDB: converts text columns to UTF-8."""
