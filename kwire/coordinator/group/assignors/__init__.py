"""Server-side assignors of consumer groups and share groups: the same assignments as Apache Kafka's."""
