"""Sink for Apache Paimon tables: written without a JVM, one snapshot per table and batch."""
