"""Configuration keys of Apache Kafka 4.3.1: one table per resource type, one file per theme."""
