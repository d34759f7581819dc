"""Metadata image: the state that the metadata log describes, its records, and differences between two images."""
