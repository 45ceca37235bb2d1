"""Schema changes of a pipeline: applied to schemas, found between schemas, planned and executed in a sink."""
