"""Avro with a Schema Registry: messages in Confluent's wire format, and the registry that has their schemas."""
