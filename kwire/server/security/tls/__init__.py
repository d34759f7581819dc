"""TLS: stores of keys and certificates, contexts of connections, principals of client certificates."""
