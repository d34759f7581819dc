"""Memory of connections: requests, unread responses, the receive buffer."""
