"""Planned batches and decoded rows that the runs of a pipeline into several sinks take from each other."""
