"""Apache Paimon: lake tables written without a JVM, one snapshot per table and batch."""
