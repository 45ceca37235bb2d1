"""Read topics: find where partitions begin and end, plan batches, and track the schemas of tables."""
