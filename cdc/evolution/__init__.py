"""Schema changes of a pipeline: applied to schemas, found between schemas, planned and carried out in a sink."""
