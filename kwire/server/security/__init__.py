"""Security of connections: authentication of clients and nodes."""
