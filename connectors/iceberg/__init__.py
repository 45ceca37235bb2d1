"""Sink for Apache Iceberg tables of format version 2: written without a JVM, one snapshot per table and batch."""
