"""Flow control: which connection is served and read, and for how long."""
