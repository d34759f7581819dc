"""Share groups (KIP-932): the share partitions of this broker, share sessions, and share fetches."""
