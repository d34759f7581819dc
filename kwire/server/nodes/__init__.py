"""Nodes: construction, start and stop of brokers and controllers."""
