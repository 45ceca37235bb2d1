"""The plan of a pipeline, shown by `cdc plan`: matched tables, routes, sink schemas, statements."""
