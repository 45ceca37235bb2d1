"""The plan of a pipeline, which `cdc plan` shows: matched tables, routes, sink schemas, statements."""
