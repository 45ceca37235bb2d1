"""Avro with a Schema Registry: messages in Confluent's wire format, and a client of the registry."""
