"""MySQL and MariaDB: a change log source (live server or archived binlog files), and a sink in `sink`."""
