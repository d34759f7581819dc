"""Brokers and controllers, built from their parts in phases."""
