"""Security of connections."""
