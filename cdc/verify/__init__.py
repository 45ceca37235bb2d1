"""`cdc verify`: compares the tables of a pipeline's sink with those of its source."""
