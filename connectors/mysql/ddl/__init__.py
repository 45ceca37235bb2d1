"""Table definitions under the DDL of QUERY events: `TableDefinitions` applies what `connectors.shared.ddl` reads."""
