"""Source and sink for Apache Kafka: changes as messages in the formats of Debezium, Canal and Maxwell"""
