"""APIs of the share coordinator, for brokers: the state of share groups in topic partitions (KIP-932)."""
