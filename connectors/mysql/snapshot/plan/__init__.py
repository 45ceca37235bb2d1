"""Plans which tables are snapshotted, in which chunks and batches."""
