"""Upgrades: directories of earlier kwires, older levels of the metadata."""
