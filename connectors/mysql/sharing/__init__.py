"""Planned batches and decoded rows shared by the runs of a pipeline into several sinks."""
