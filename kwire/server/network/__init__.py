"""Sockets: listeners, connections, the memory and the limits that they share."""
