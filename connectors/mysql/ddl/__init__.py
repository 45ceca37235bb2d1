"""Table definitions tracked through logged DDL: `TableDefinitions` applies what `connectors.shared.ddl` reads."""
