"""SASL: mechanisms, credentials and the state of a connection that authenticates."""
