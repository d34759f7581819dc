"""Every configuration key of Apache Kafka 4.3.1, one table per kind of resource, one file per theme."""
