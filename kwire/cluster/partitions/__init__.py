"""Partitions that this broker leads or follows."""
