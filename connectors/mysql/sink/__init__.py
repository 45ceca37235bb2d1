"""MySQL, MariaDB and OceanBase as sinks: staged files, then one transaction for all tables of a batch."""
