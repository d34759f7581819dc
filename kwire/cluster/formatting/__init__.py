"""Formatting of log directories, and what a new cluster starts with."""
