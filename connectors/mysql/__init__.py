"""MySQL and MariaDB: change log source (live server or archived binlog files)."""
