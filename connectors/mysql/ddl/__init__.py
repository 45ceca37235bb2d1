"""Table definitions under the DDL of QUERY events: `Catalog` applies what `connectors.shared.ddl` reads."""
