"""MySQL and MariaDB: the change log as a source (live server or archived binlog files), and a sink in `sink`."""
