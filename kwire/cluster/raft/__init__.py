"""Metadata log of a node: its files, snapshots and quorum driver, and the images that result from it."""
