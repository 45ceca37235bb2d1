"""Plans which tables are copied, in which chunks and batches."""
