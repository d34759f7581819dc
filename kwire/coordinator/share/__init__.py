"""State of share groups in topic partitions (KIP-932), as a state machine over the coordinator runtime."""
