"""Reading topics: where partitions begin and end, what a batch holds, and the schemas of its tables."""
