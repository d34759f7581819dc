"""APIs for records and offsets of partitions."""
