"""Requests to the active controller and to other brokers."""
