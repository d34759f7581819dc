"""A deterministic simulator of hosts, network, disks and time for the production classes."""
