"""APIs for brokers, the quorum and the controller."""
