"""Upgrade tests: directories of earlier kwire versions, older levels of the metadata."""
