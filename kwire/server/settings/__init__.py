"""The broker's configuration: read at start, altered while it runs, described."""
