"""Apache Kafka: changes as messages of topics, in the formats of Debezium, Canal and Maxwell"""
