"""Broker configuration: read at start, altered while the broker runs, and described."""
