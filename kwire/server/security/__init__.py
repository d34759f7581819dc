"""Security of connections: TLS, and the authentication of clients and nodes."""
