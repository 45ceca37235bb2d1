"""A real Kafka broker: one node in KRaft mode on the loopback interface, from jars that Maven brings."""
